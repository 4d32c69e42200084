"""Whether passes are being recorded as a CUDA graph: then nothing may ask the GPU for a number
(`training/cuda_graphs.py`)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

_now = {"recording": False}  # kept here and not asked of the stream: torch.compile sees it, and compiles for either


def is_recording() -> bool:
    return _now["recording"]


@contextmanager
def recording() -> Iterator[None]:
    """Tell all that is called within."""
    _now["recording"] = True
    try:
        yield
    finally:
        _now["recording"] = False
