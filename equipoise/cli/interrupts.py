"""Ctrl-C and SIGTERM, from the first import to the last: one sentence and the exit status that shells expect.

A signal raises a KeyboardInterrupt, so that files half written and locks are removed on the way out. What it interrupts
may turn it into an error of its own, as some compiled modules do while they are imported: that is not told. Training
has its own answer to signals (`training/signals.py`), for it saves itself.

This module imports nothing that takes time.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

AGAIN = 0.02  # seconds


class Stopped(KeyboardInterrupt):
    """A class of its own, for Python ends itself by SIGINT where a plain KeyboardInterrupt has passed through `exec`,
    whatever the exit status is."""


def stoppable(work: Callable[[], int]) -> int:
    """The exit status of `work`, which is this process's all, or 128 + the number of the signal that ended it."""
    stop = _Stop()
    hook, sys.unraisablehook = sys.unraisablehook, stop.unraisable
    try:
        stop.listen()
        code = work()
    except (Exception, KeyboardInterrupt):
        if not stop.number:
            raise
        stop.tell()
        code = 128 + stop.number
    finally:
        stop.rest()
        sys.unraisablehook = hook
    return 128 + stop.number if code and stop.number else code


class _Stop:
    def __init__(self) -> None:
        self.number = 0  # of the signal that came
        self._process = os.getpid()
        ranks = "TORCHELASTIC_RUN_ID" in os.environ  # torchrun ends them by SIGTERM, which must not wait
        wanted = (signal.SIGINT,) if ranks else (signal.SIGINT, signal.SIGTERM)
        self._numbers = [number for number in wanted if signal.getsignal(number) is not signal.SIG_IGN]  # nohup

    def listen(self) -> None:
        for number in self._numbers:
            signal.signal(number, self._handle)

    def rest(self) -> None:
        """Leave signals to the system, which ends a process at once and without a word."""
        for number in self._numbers:
            signal.signal(number, signal.SIG_DFL)

    def tell(self) -> None:
        print(f"equipoise: {stopped_by(self.number)}", file=sys.stderr)

    def unraisable(self, problem: Any) -> None:
        """Stop again where a finalizer was interrupted, which passes nothing on, and tell nothing of it."""
        if not self.number:
            sys.__unraisablehook__(problem)
        elif isinstance(problem.exc_value, Stopped):
            import threading

            self.listen()
            threading.Timer(AGAIN, os.kill, (self._process, self.number)).start()

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if os.getpid() != self._process:  # a fork that has no answer of its own yet
            if number != signal.SIGINT:
                signal.signal(number, signal.SIG_DFL)
                signal.raise_signal(number)
            return
        self.number = number
        self.rest()  # a second one does not wait for what the first one ends
        raise Stopped(stopped_by(number))


def stopped_by(number: int) -> str:
    return "stopped" if number == signal.SIGINT else f"stopped by {signal.Signals(number).name}"
