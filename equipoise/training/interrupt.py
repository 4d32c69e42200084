"""Being asked to stop: SIGTERM from a cluster that wants its machine back, SIGINT from a person.

The first signal lets the step in hand finish and the run save itself; the second ends the process at once, for after
the first one the system's own answer to signals is back. Work that can be done again later (an evaluation) is only
attempted: a cluster's grace may be shorter than it.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType, TracebackType

SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Abandoned(BaseException):
    """Raised inside attempted work; not an Exception, so that nothing on the way swallows it."""


class Interrupt:
    """While in it, `if interrupt:` says whether a signal came, and `interrupt.signal` which (0: none)."""

    def __init__(self) -> None:
        self.signal = 0
        self._can_abandon = False
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

    def attempt(self, work: Callable[[], None]) -> bool:
        """Do `work`, which can be given up at any point, until a signal comes; whether it came to its end."""
        if self:
            return False
        try:
            self._can_abandon = True
            work()
            self._can_abandon = False
            return True
        except Abandoned:
            return False
        finally:
            self._can_abandon = False

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.signal = number
        for other in self._before:
            signal.signal(other, signal.SIG_DFL)
        if self._can_abandon:
            self._can_abandon = False
            raise Abandoned
