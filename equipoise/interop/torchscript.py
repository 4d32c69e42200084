"""Tensors of a TorchScript archive, such as OpenAI's own CLIP files; its programs are not read.

An archive is a zip file: `data.pkl` pickles the modules as objects with attributes, `data/0`, `data/1`, ... hold the
numbers, `code/` the programs. The pickle is read with a list of the names it may use: those of tensors, and modules,
which become `ModuleShell`s. Any other name raises UserError, so there is nothing it could call.
"""

from __future__ import annotations

import pickle
import zipfile
from collections import OrderedDict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from equipoise.types import UserError

STORAGES = {
    "FloatStorage": torch.float32,
    "HalfStorage": torch.float16,
    "BFloat16Storage": torch.bfloat16,
    "DoubleStorage": torch.float64,
    "LongStorage": torch.int64,
    "IntStorage": torch.int32,
    "ByteStorage": torch.uint8,
    "BoolStorage": torch.bool,
}
LISTS = ("build_intlist", "build_tensorlist", "build_doublelist", "build_boollist", "restore_type_tag")


class ModuleShell:
    """A module without its program: its attributes as `data.pkl` has them."""

    def __setstate__(self, state: Any) -> None:
        self.attributes = state if isinstance(state, dict) else {}


def is_torchscript(path: Path) -> bool:
    try:
        with zipfile.ZipFile(path) as archive:
            return any(name.endswith("/constants.pkl") for name in archive.namelist())
    except Exception:  # no zip file, or one whose directory is damaged: not such an archive
        return False


def read_torchscript(path: Path) -> dict[str, Tensor]:
    try:
        with zipfile.ZipFile(path) as archive:
            root = next(name for name in archive.namelist() if name.endswith("/data.pkl")).removesuffix("data.pkl")
            with archive.open(f"{root}data.pkl") as stream:
                shell = _TensorUnpickler(stream, lambda key: _stored(archive, f"{root}data/{key}")).load()
        return dict(_tensors(shell, "", set()))
    except UserError as error:
        raise UserError(f"{path} is refused: {error}; nothing of it was run") from None
    except Exception:  # whatever a damaged archive or pickle leads to
        raise UserError(f"cannot read weights from {path}: it is damaged, or no archive of a model") from None


def _stored(archive: zipfile.ZipFile, name: str) -> bytes:
    if archive.getinfo(name).compress_type != zipfile.ZIP_STORED:  # as torch never does: a little may become a lot
        raise UserError(f"its {name} is compressed, as torch leaves none")
    return archive.read(name)


def _tensors(value: Any, name: str, seen: set[int]) -> Iterator[tuple[str, Tensor]]:
    if isinstance(value, Tensor):
        yield name, value
    elif isinstance(value, ModuleShell):
        if id(value) in seen:
            raise UserError(f"its module {name} lies in itself, or in two places")
        seen.add(id(value))
        for attribute, inner in value.attributes.items():
            if attribute != "attn_mask":  # made from the context alone
                yield from _tensors(inner, f"{name}.{attribute}" if name else attribute, seen)


class _TensorUnpickler(pickle.Unpickler):
    def __init__(self, stream: Any, read: Callable[[str], bytes]):
        super().__init__(stream)
        self.read_numbers = read

    def find_class(self, module: str, name: str) -> Any:
        if module.startswith("__torch__"):
            return ModuleShell
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return _rebuilt
        if (module, name) == ("collections", "OrderedDict"):
            return OrderedDict
        if module == "torch" and name in STORAGES:
            return STORAGES[name]
        if module == "torch.jit._pickle" and name in LISTS:
            return _first
        raise UserError(f"its pickle calls {module}.{name}, which no tensor needs")

    def persistent_load(self, pid: Any) -> Tensor:
        _, dtype, key, *_ = pid
        return torch.frombuffer(bytearray(self.read_numbers(str(key))), dtype=dtype)


def _rebuilt(numbers: Tensor, offset: int, size: tuple[int, ...], stride: tuple[int, ...], *_: Any) -> Tensor:
    return torch.as_strided(numbers, size, stride, offset).clone()


def _first(value: Any, *_: Any) -> Any:
    return value
