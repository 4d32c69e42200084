"""Work side by side in processes of its own, each with one core, until a moment after which nothing more is begun."""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from typing import TypeVar

from equipoise.types import UserError

T = TypeVar("T")
SECONDS_BETWEEN_LOOKS = 1.0


def side_by_side(calls: Sequence[Callable[[], T]], jobs: int, until: float | None = None) -> Iterator[tuple[int, T]]:
    """Yield the number of each call and what it gave, as they end; after `until` (of time.monotonic) none is begun."""
    waiting, running = deque(enumerate(calls)), dict[Future[T], int]()
    workers = min(jobs, max(1, len(calls)))
    pool = ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=_die_with, initargs=(os.getpid(),))
    try:
        while True:
            while waiting and len(running) < workers and (until is None or time.monotonic() < until):
                number, call = waiting.popleft()
                running[pool.submit(call)] = number
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


def _die_with(parent: int) -> None:
    """End this process when the one that started it is gone, however that died."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(SECONDS_BETWEEN_LOOKS)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
