"""A watchdog over the wait for a batch of worker processes.

The DataLoader's own timeout covers the wait for a worker's message and not what follows: the tensors come by file
descriptors over a socket, and a worker that is stopped just then (SIGSTOP, a frozen container, a dead disk) would keep
the run waiting for ever. The watchdog kills the workers: their sockets close, and the wait ends in an error.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import TypeVar

T = TypeVar("T")
SLACK = 2.0  # seconds after the DataLoader's own timeout
LOOKS = 4  # within that time


class Watchdog:
    """While in it, `kill` is called once if one item of `watched` takes longer than `seconds`; 0 is never."""

    def __init__(self, seconds: float, kill: Callable[[], None]):
        self.has_killed = False
        self._limit = seconds + SLACK if seconds else 0.0
        self._kill = kill
        self._since: float | None = None  # the beginning of the wait in hand
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, name="watchdog of batches", daemon=True)

    def watched(self, items: Iterator[T]) -> Iterator[T]:
        while True:
            self._since = time.monotonic()
            try:
                item = next(items)
            except StopIteration:
                return
            finally:
                self._since = None
            yield item

    def __enter__(self) -> Watchdog:
        if self._limit:
            self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._over.set()

    def _look(self) -> None:
        while not self._over.wait(SLACK / LOOKS):
            since = self._since
            if since is not None and time.monotonic() - since > self._limit:
                self.has_killed = True
                self._kill()
                return
