"""What one visitor may ask of the service: sizes, lengths and how often."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from equipoise.types import UserError

MEBIBYTE = 1 << 20
ADDRESSES = 4096  # whose requests are counted; the one that asked least recently is forgotten


@dataclass(frozen=True)
class Limits:
    upload: int = 10 * MEBIBYTE  # bytes of a picture
    pixels: int = 25_000_000  # of a picture, as its header promises
    body: int = 64 * 1024  # bytes of any other request
    letters: int = 1000  # of a text
    classes: int = 200  # of one question
    found: int = 100  # pictures of one answer
    rate: int = 0  # requests a minute from one address; 0: any number
    waiting: int = 512  # requests that wait for the model
    seconds: float = 30.0  # to send a request

    def __post_init__(self) -> None:
        for name, least in (("upload", 1), ("pixels", 1), ("rate", 0)):
            if getattr(self, name) < least:
                raise UserError(f"--{name} must be at least {least}, not {getattr(self, name)}")


class TooOften(UserError):
    """Raised where an address asks more often than it may."""


class Rate:
    """A bucket of requests for each address, refilled all the time, a quarter of a minute's worth deep."""

    def __init__(self, per_minute: int, now: Callable[[], float] = time.monotonic):
        self.per_minute, self.now = per_minute, now
        self.deep = max(1.0, per_minute / 4)
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()  # requests left, and when that was so

    def take(self, address: str) -> None:
        if not self.per_minute:
            return
        now = self.now()
        left, then = self._left.pop(address, (self.deep, now))
        left = min(self.deep, left + (now - then) * self.per_minute / 60)
        self._left[address] = (left - 1 if left >= 1 else left, now)
        if len(self._left) > ADDRESSES:
            self._left.popitem(last=False)
        if left < 1:
            raise TooOften(f"more than {self.per_minute} requests a minute come from your address; wait a little")
