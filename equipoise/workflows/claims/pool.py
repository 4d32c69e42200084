"""Work side by side in processes of its own, each with one core, until a moment after which nothing more is begun."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from typing import TypeVar

from equipoise.io.parent import end_with
from equipoise.types import UserError

K = TypeVar("K")
T = TypeVar("T")


def side_by_side(calls: Sequence[Callable[[], T]], jobs: int, until: float | None = None) -> Iterator[tuple[int, T]]:
    """Yield the number of each call and what it gave, as they end; after `until` (of time.monotonic) none is begun."""
    waiting = deque(enumerate(calls))
    return as_asked(lambda: waiting.popleft() if waiting else None, jobs, until)


def as_asked(
    ask: Callable[[], tuple[K, Callable[[], T]] | None], jobs: int, until: float | None = None
) -> Iterator[tuple[K, T]]:
    """The same of calls that are asked for when a process is free: their names, and None while there is nothing to do,
    which may be until another has ended."""
    running = dict[Future[T], K]()
    pool = ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), initializer=end_with, initargs=(os.getpid(),))
    try:
        while True:
            while len(running) < jobs and (until is None or time.monotonic() < until) and (asked := ask()):
                name, call = asked
                running[pool.submit(call)] = name
            if not running:
                break
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                yield running.pop(future), future.result()
    except BrokenProcessPool as error:
        raise UserError(
            "a process was killed, as systems do that run out of memory; ask for fewer --jobs: what is done is kept"
        ) from error
    finally:
        pool.shutdown(cancel_futures=True)
