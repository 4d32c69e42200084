"""Being asked to stop: SIGTERM from a cluster that wants its machine back, SIGINT from a person.

The first signal lets the step in hand finish and the run save itself; the second ends the process at once, for after
the first one the system's own answer to signals is back. Work that can be done again later (an evaluation, waiting for
a batch) is only attempted: a cluster's grace may be shorter than it.

Clusters and terminals signal the processes that load data, too. Those leave Ctrl-C to their parent; once the run is to
stop, it does not matter that they die.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import TypeVar

SIGNALS = (signal.SIGTERM, signal.SIGINT)
CHILD_DIED = getattr(signal, "SIGCHLD", None)  # torch raises an error out of it; Windows has none

T = TypeVar("T")


class Abandoned(BaseException):
    """Raised inside attempted work; not an Exception, so that nothing on the way swallows it."""


class Interrupt:
    """While in it, `if interrupt:` says whether a signal came, and `interrupt.signal` which (0: none)."""

    def __init__(self) -> None:
        self.signal = 0
        self._can_abandon = False
        self._process = os.getpid()
        self._before: dict[signal.Signals, signal._HANDLER] = {}

    def __bool__(self) -> bool:
        return self.signal != 0

    def __enter__(self) -> Interrupt:
        if threading.current_thread() is threading.main_thread():  # signals come to no other
            former = {number: signal.getsignal(number) for number in SIGNALS}
            # one that is ignored (nohup), or handled outside Python, stays so
            self._before = {n: handler for n, handler in former.items() if handler not in (signal.SIG_IGN, None)}
            for number in self._before:
                signal.signal(number, self._note)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def attempt(self, work: Callable[[], T]) -> T | None:
        """What `work` gives, which can be given up at any point; None if a signal has come or comes meanwhile."""
        if self:
            return None
        try:
            self._can_abandon = True
            result = work()
            self._can_abandon = False
            return result
        except Abandoned:
            return None
        finally:
            self._can_abandon = False

    def _note(self, number: int, frame: FrameType | None) -> None:
        if os.getpid() != self._process:
            _answer_as_worker(number)
            return
        self.signal = number
        for other in self._before:
            signal.signal(other, signal.SIG_DFL)
        if CHILD_DIED is not None:
            self._before[CHILD_DIED] = signal.signal(CHILD_DIED, signal.SIG_DFL) or signal.SIG_DFL
        if self._can_abandon:
            self._can_abandon = False
            raise Abandoned


def _answer_as_worker(number: int) -> None:
    if number != signal.SIGINT:
        signal.signal(number, signal.SIG_DFL)
        signal.raise_signal(number)
