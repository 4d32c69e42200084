"""The shapes of a model, known before it costs memory: torch's meta device builds a model of shapes alone.

A model folder is compared with the shapes in its file's header, so that one whose settings or tokenizer promise a table
of a billion words is refused without making one.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from equipoise.models.folder import require_fit
from equipoise.models.lora import DOWN, UP
from equipoise.types import UserError

GIB = 2**30


def require_shapes(build: Callable[[], nn.Module], path: Path) -> None:
    """Raise UserError, which names the differences, where the tensors in `path` are not those of what `build` makes."""
    if (model := on_meta(build)) is not None:
        shapes = {name: tensor for name, tensor in read_shapes(path).items() if not name.endswith((UP, DOWN))}
        require_fit(model.state_dict(), shapes, path)
        _require_room(model)


def require_room(build: Callable[[], nn.Module]) -> None:
    """Raise UserError where what `build` makes is larger than this machine's memory."""
    if (model := on_meta(build)) is not None:
        _require_room(model)


def on_meta(build: Callable[[], nn.Module]) -> nn.Module | None:
    """What `build` makes, of shapes alone; None where a part of another library must see numbers to be built."""
    try:
        with torch.device("meta"):
            return build()
    except RuntimeError as error:
        if "meta" not in str(error):
            raise
        return None


def read_shapes(path: Path) -> dict[str, Tensor]:
    """The tensors of a file without their numbers."""
    try:
        with safe_open(path, "pt") as file:
            names = file.keys()
            sizes = {name: file.get_slice(name).get_shape() for name in names}
    except (OSError, SafetensorError) as error:
        raise UserError(f"cannot read weights from {path}: {error}") from error
    return {name: torch.empty(size, device="meta") for name, size in sizes.items()}


def machine_memory() -> float:
    """Bytes of main memory; infinite where the system does not say."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return math.inf


def _require_room(model: nn.Module) -> None:
    parts = {name: tensor.nbytes for name, tensor in (*model.named_parameters(), *model.named_buffers())}
    need, have = sum(parts.values()), machine_memory()
    if need > have:
        largest = max(parts, key=parts.__getitem__)
        raise UserError(
            f"the model would take {need / GIB:,.0f} GiB, and this machine has {have / GIB:,.0f}; choose smaller "
            f"widths, fewer layers or a smaller vocabulary (the largest tensor is {largest})"
        )
