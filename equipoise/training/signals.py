"""Stopping a run by a signal: SIGTERM from a cluster that wants its machine back, SIGINT from a person.

The first signal lets the step in hand finish and the run save itself; the second ends the process at once, for after
the first one the system's own answer to signals is back. Work that can be done again later (an evaluation, waiting for
a batch) is only attempted: a cluster's grace may be shorter than it.

Clusters and terminals signal the processes that load data, too. Those leave Ctrl-C to their parent; once the run is to
stop, it does not matter that they die.

One of several ranks may be signalled, or all; they stop together (`consensus`). Each may get the same notice twice,
from the cluster and from torchrun, which passes it on, so that for a while a second one does not count. A rank whose
launcher was killed stops too: nothing would end it any more.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import TypeVar

from equipoise.training.distributed.process_group import ignore_sigterm
from equipoise.training.distributed.ranks import Ranks

SIGNALS = (signal.SIGTERM, signal.SIGINT)
CHILD_DIED = getattr(signal, "SIGCHLD", None)  # torch raises an error out of it; Windows has none
ONE_NOTICE = 5.0  # seconds in which the same notice may arrive twice

T = TypeVar("T")


class Abandoned(BaseException):
    """Raised inside interruptible work; not an Exception, so that nothing on the way swallows it."""


class SignalHandler:
    """While in it, `if interrupt:` says whether a signal came, and `interrupt.signal` which (0: none)."""

    def __init__(self, ranks: Ranks | None = None) -> None:
        self.ranks = ranks or Ranks()
        self.signal = 0
        self._since = 0.0
        self._can_abandon = False
        self._process, self._launcher = os.getpid(), os.getppid()
        self._before: dict[signal.Signals, signal._HANDLER] = {}

    def __bool__(self) -> bool:
        return self.signal != 0

    def __enter__(self) -> SignalHandler:
        if threading.current_thread() is threading.main_thread():  # signals come to no other
            former = {number: signal.getsignal(number) for number in SIGNALS}
            # one that is ignored (nohup), or handled outside Python, stays so
            self._before = {n: handler for n, handler in former.items() if handler not in (signal.SIG_IGN, None)}
            for number in self._before:
                signal.signal(number, self._handle)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        if self._before and error is not None and self.ranks.world > 1:
            ignore_sigterm()

    def consensus(self, *questions: bool) -> list[bool]:
        """Whether a signal came to any rank, and whether any answers yes to each question; the same on all ranks."""
        orphaned = self.ranks.world > 1 and os.getppid() != self._launcher
        number, *answers = self.ranks.highest(self.signal or (signal.SIGTERM if orphaned else 0), *questions)
        self._record(number)
        return [bool(self), *map(bool, answers)]

    def give_up_together(self) -> None:
        """Raise Abandoned on all ranks if a signal came to any: the place where `interruptible_together` can stop."""
        if self.ranks.world > 1 and self.consensus()[0]:
            raise Abandoned

    def interruptible(self, work: Callable[[], T]) -> T | None:
        """The result of `work`, which a signal may abandon at any point; None if one has come or comes."""
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

    def interruptible_together(self, work: Callable[[], T]) -> T | None:
        """As `interruptible`, for work that the ranks do together: none may leave it but where all do."""
        if self.ranks.world == 1:
            return self.interruptible(work)
        try:
            self.give_up_together()
            return work()
        except Abandoned:
            return None

    def _record(self, number: int) -> None:
        if number and not self:
            self.signal, self._since = number, time.monotonic()

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if os.getpid() != self._process:
            _handle_in_worker(number)
            return
        if self and time.monotonic() - self._since < ONE_NOTICE:  # of several ranks: one process is gone by now
            return
        if self:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        self._record(number)
        for other in self._before if self.ranks.world == 1 else ():
            signal.signal(other, signal.SIG_DFL)
        if CHILD_DIED is not None:
            self._before[CHILD_DIED] = signal.signal(CHILD_DIED, signal.SIG_DFL) or signal.SIG_DFL
        if self._can_abandon:
            self._can_abandon = False
            raise Abandoned


def _handle_in_worker(number: int) -> None:
    if number != signal.SIGINT:
        signal.signal(number, signal.SIG_DFL)
        signal.raise_signal(number)
