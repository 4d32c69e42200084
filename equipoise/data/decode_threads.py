"""Pictures decoded side by side, in threads: decoders and resizes let go of Python's lock while they work.

As many threads as torch computes with (`OMP_NUM_THREADS`, `torch.set_num_threads`): it rests while pictures are read,
and where several processes share a machine each has its part of the cores already.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

MOST = 16
FEWEST = 8  # pictures a thread: for less none is started

T = TypeVar("T")
R = TypeVar("R")


def map_in_threads(work: Callable[[T], R], items: Sequence[T]) -> list[R]:
    """What `work` gives for each item, in their order; an error is that of the first item that has one.

    `work` must not compute with torch, which would start as many threads again in each of these.
    """
    threads = min(torch.get_num_threads(), MOST, len(items) // FEWEST)
    if threads <= 1:
        return [work(item) for item in items]
    # threads of this call alone: those of a pool that stays do not survive a fork
    with ThreadPoolExecutor(threads, "decode") as pool:
        return list(pool.map(work, items))
