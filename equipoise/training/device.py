"""A torch device by its name, tried before anything depends on it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch

from equipoise.ops.out_of_memory import lacks_memory
from equipoise.types import UserError

_CHOSEN: ContextVar[str] = ContextVar("device", default="")


@contextmanager
def choosing_device(name: str) -> Iterator[None]:
    """Let every device within be the one of this name, whatever settings say; "" or "auto" chooses nothing."""
    token = _CHOSEN.set("" if name == "auto" else name)
    try:
        yield
    finally:
        _CHOSEN.reset(token)


def torch_device(name: str) -> torch.device:
    """The device called `name`, or that of `choosing_device`; `auto` is a GPU if there is one. Raises UserError if it
    cannot be used."""
    name = _CHOSEN.get() or name
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise UserError(f"device {name!r} is not one torch knows; try auto, cpu or cuda") from error
    if device.type == "cuda" and not torch.cuda.is_available():
        raise UserError(f"device {name!r} was asked for, but torch sees no GPU; set device to auto or cpu")
    try:
        torch.zeros(1, device=device).item()
    except (RuntimeError, NotImplementedError) as error:
        if lacks_memory(error):
            raise
        raise UserError(f"device {name!r} cannot be used here; try auto, cpu or cuda") from error
    return device
