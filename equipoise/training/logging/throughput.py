"""Time and speed of training: evaluation and checkpoints do not count."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager


class Throughput:
    """A clock that can be paused, and a count of the pairs trained on."""

    def __init__(self, already: float = 0.0) -> None:
        """`already` seconds were spent before, by the run this one continues."""
        self._start, self._away, self._pairs = time.monotonic() - already, 0.0, 0
        self._mark = (already, 0)

    def count(self, pairs: int) -> None:
        self._pairs += pairs

    def seconds(self) -> float:
        return time.monotonic() - self._start - self._away

    def rate(self) -> float:
        """Pairs per second since the last call."""
        (seconds, pairs), self._mark = self._mark, (self.seconds(), self._pairs)
        return (self._pairs - pairs) / max(1e-9, self._mark[0] - seconds)

    @contextmanager
    def paused(self) -> Iterator[None]:
        left = time.monotonic()
        try:
            yield
        finally:
            self._away += time.monotonic() - left
