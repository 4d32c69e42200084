"""Loaders of exported models: TorchScript (.pt, .ts), torch.export (.pt2), ONNX (.onnx).

A model pickled by torch.save is never opened, for that would run any Python it names. Within a .pt2 torch itself may
unpickle constants: such a file is trusted as a Python script is.
"""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from equipoise.types import UserError

NAMES = ("boxes", "labels", "scores", "features")
OPERATORS = b"ops.torchvision."  # how programs call those that torchvision adds to torch, such as nms
Answer = Mapping[str, Tensor]
Program = Callable[[Tensor], Answer]  # one picture [3, H, W]
Size = tuple[int, int] | None  # height and width, where they are fixed


def _torchscript(path: Path) -> tuple[Program, Size]:
    _require_operators(path, "TorchScript")
    try:
        module = torch.jit.load(str(path), map_location="cpu").eval()
    except (RuntimeError, ValueError) as error:
        raise UserError(
            f"{path}: this is no TorchScript ({_first_line(error)}); a pickled model is not opened, for that would run "
            "its code: export it with torch.jit.script(model).save(...)"
        ) from None
    return lambda image: _named(module([image]), path), None


def _exported(path: Path) -> tuple[Program, Size]:
    _require_operators(path, "torch.export program")
    try:
        program = torch.export.load(path)
    except Exception as error:  # a zip file, JSON and weights, each with errors of its own
        raise UserError(f"{path}: this is no torch.export program ({_first_line(error)}); export it anew") from None
    inputs = [node.meta["val"] for node in program.graph.nodes if node.name in program.graph_signature.user_inputs]
    shape = list(inputs[0].shape)
    module = program.module()
    return lambda image: _named(module(image if len(shape) == 3 else image[None]), path), _fixed(shape)


def _onnx(path: Path) -> tuple[Program, Size]:
    try:
        import onnxruntime
    except ImportError as error:
        raise UserError(f"{path}: this needs onnxruntime; install it with: pip install 'equipoise[onnx]'") from error
    try:
        session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime has a class of its own for each fault
        raise UserError(f"{path}: this is no ONNX model ({_first_line(error)}); export it anew") from None
    entry, outputs = session.get_inputs()[0], [output.name for output in session.get_outputs()]

    def run(image: Tensor) -> Answer:
        pixels = image if len(entry.shape) == 3 else image[None]
        values = [torch.from_numpy(value) for value in session.run(None, {entry.name: pixels.numpy()})]
        by_name = dict(zip(outputs, values, strict=True))
        return by_name if "boxes" in by_name else _named(tuple(values), path)

    return run, _fixed(entry.shape)


def _named(answer: Any, path: Path) -> Answer:
    """Outputs by name, of any of torchvision's formats: (losses, [{...}]), [{...}], {...} or values in order."""
    if isinstance(answer, tuple) and len(answer) == 2 and isinstance(answer[1], list):
        answer = answer[1]
    if isinstance(answer, list) and len(answer) == 1 and isinstance(answer[0], Mapping):
        answer = answer[0]
    if isinstance(answer, Mapping):
        return {name: value for name, value in answer.items() if name in NAMES}
    if isinstance(answer, (tuple, list)) and 3 <= len(answer) <= 4:
        return dict(zip(NAMES, answer, strict=False))
    raise UserError(f"{path}: the detector answers neither a dictionary nor {', '.join(NAMES)} in order; export it so")


def _require_operators(path: Path, kind: str) -> None:
    """Import torchvision where a program calls its operators; both kinds are zip files of programs as text."""
    if not zipfile.is_zipfile(path):
        raise UserError(f"{path}: this is no {kind}, or not all of it; export it anew")
    with zipfile.ZipFile(path) as archive:
        programs = [name for name in archive.namelist() if name.endswith((".py", ".json"))]
        needed = any(OPERATORS in archive.read(name) for name in programs)
    if needed:
        try:
            import_module("torchvision")
        except (ImportError, RuntimeError) as error:  # the latter where it was built for another torch
            what = f"this detector needs torchvision's operators, which cannot be had ({_first_line(error)})"
            raise UserError(f"{path}: {what}; install the torchvision for torch {torch.__version__}") from None


def _fixed(shape: Sequence[object]) -> Size:
    height, width = shape[-2:]
    return (height, width) if isinstance(height, int) and isinstance(width, int) else None


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0].split(". ")[0][:100]


READERS: dict[str, Callable[[Path], tuple[Program, Size]]] = {
    ".pt": _torchscript,
    ".ts": _torchscript,
    ".pt2": _exported,
    ".onnx": _onnx,
}
