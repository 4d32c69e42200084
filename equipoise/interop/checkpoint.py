"""The tensors of a file that others wrote, and nothing else of it: no code in it is ever run.

`.safetensors` holds tensors alone. A `.pt`, `.pth` or `.bin` is a pickle, which may name any Python function to be
called: torch reads it with `weights_only=True`, which calls none but its own, and what names another is refused. OpenAI
published programs (TorchScript) in `.pt` files: their tensors are read, their programs are not (`torchscript.py`).
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
from equipoise.types import UserError

WRAPPED = "state_dict"  # the key of a training checkpoint that holds the weights
PREFIXES = ("module.", "_orig_mod.")  # put before every name by data parallelism, by torch.compile
NUMBERS = (torch.float32, torch.float16, torch.bfloat16)  # which float32 holds exactly


def read_checkpoint(path: Path) -> dict[str, Tensor]:
    """The weights by name, without the prefixes of training, floating ones as float32."""
    if not path.is_file():
        raise UserError(f"there is no file {path}; give a .pt, .bin or .safetensors file, or a folder that holds one")
    if path.suffix == ".safetensors":
        found: Any = read_tensors(path)
    elif is_torchscript(path):
        found = read_torchscript(path)
    else:
        found = _unpickled(path)
    if isinstance(found, dict) and isinstance(found.get(WRAPPED), dict):
        found = found[WRAPPED]
    if not isinstance(found, dict) or not found or not all(isinstance(tensor, Tensor) for tensor in found.values()):
        raise UserError(f"{path} holds no table of tensors, as a checkpoint does; give the model's state_dict")
    return {name: _exact(tensor, name, path) for name, tensor in _without_prefixes(found).items()}


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
    except (RuntimeError, ValueError, EOFError, KeyError, IndexError, AttributeError, TypeError):
        # what the unpickler stumbled over says nothing to a person
        raise UserError(f"cannot read weights from {path}: it is damaged, or no checkpoint") from None


def _without_prefixes(state: dict[str, Tensor]) -> dict[str, Tensor]:
    for prefix in (*PREFIXES, *PREFIXES):  # one may stand before the other
        if all(name.startswith(prefix) for name in state):
            state = {name.removeprefix(prefix): tensor for name, tensor in state.items()}
    return state


def _exact(tensor: Tensor, name: str, path: Path) -> Tensor:
    if not tensor.is_floating_point():
        return tensor
    if tensor.dtype not in NUMBERS:
        raise UserError(f"{path}: {name} is {str(tensor.dtype).removeprefix('torch.')}, which float32 cannot hold")
    return tensor.float()
