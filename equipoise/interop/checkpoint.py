"""Checkpoints of other libraries: their tensors and nothing else, for no code in them is ever run.

`.safetensors` holds tensors alone. A `.pt`, `.pth` or `.bin` is a pickle, which may name any Python function to be
called: torch reads it with `weights_only=True`, which calls none but its own; a file that names another raises
UserError. OpenAI published programs (TorchScript) in `.pt` files: their tensors are read, their programs are not
(`torchscript.py`).
"""

from __future__ import annotations

import re
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch
from torch import Tensor

from equipoise.interop.torchscript import is_torchscript, read_torchscript
from equipoise.models.folder import read_tensors
from equipoise.ops.out_of_memory import lacks_memory
from equipoise.types import UserError

SMALL = 2**26  # bytes
WRAPPED = "state_dict"  # the key of a training checkpoint that holds the weights
PREFIXES = ("module.", "_orig_mod.")  # that DDP and torch.compile put before every key
EXACT = (torch.float32, torch.float16, torch.bfloat16)  # dtypes that float32 holds exactly


def read_checkpoint(path: Path) -> dict[str, Tensor]:
    """State dict of a checkpoint, without the prefixes of training, floating tensors as float32."""
    if not path.is_file():
        raise UserError(f"there is no file {path}; give a .pt, .bin or .safetensors file, or a folder that holds one")
    if path.suffix == ".safetensors":
        content: Any = read_tensors(path)
    elif is_torchscript(path):
        content = read_torchscript(path)
    else:
        content = _unpickled(path)
    if isinstance(content, dict) and isinstance(content.get(WRAPPED), dict):
        content = content[WRAPPED]
    if (
        not isinstance(content, dict)
        or not content
        or not all(isinstance(key, str) and isinstance(tensor, Tensor) for key, tensor in content.items())
    ):
        raise UserError(f"{path} holds no table of tensors, as a checkpoint does; give the model's state_dict")
    return {key: _exact(tensor, key, path) for key, tensor in _without_prefixes(content).items()}


def _unpickled(path: Path) -> Any:
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except UnpicklingError as error:
        named = re.search(r"GLOBAL ([\w.]+)", str(error))
        what = f"it calls {named[1]}" if named else "it is damaged, or no checkpoint"
        raise UserError(
            f"{path} is refused, for a checkpoint must hold tensors and plain values alone ({what}); nothing of it was "
            "run: save the model's state_dict, best as .safetensors"
        ) from None
    except OSError as error:
        raise UserError(f"cannot read weights from {path}: {error.strerror or error}") from None
    except Exception as error:  # whatever a damaged archive or pickle leads to: its own message would not help
        if lacks_memory(error) and path.stat().st_size > SMALL:  # a small file that asks for much is damaged
            raise
        raise UserError(f"cannot read weights from {path}: it is damaged, or no checkpoint") from None


def _without_prefixes(state: dict[str, Tensor]) -> dict[str, Tensor]:
    for prefix in (*PREFIXES, *PREFIXES):  # one may stand before the other
        if all(key.startswith(prefix) for key in state):
            state = {key.removeprefix(prefix): tensor for key, tensor in state.items()}
    return state


def _exact(tensor: Tensor, key: str, path: Path) -> Tensor:
    if not tensor.is_floating_point():
        return tensor
    if tensor.dtype not in EXACT:
        raise UserError(f"{path}: {key} is {str(tensor.dtype).removeprefix('torch.')}, which float32 cannot hold")
    return tensor.float()
