"""Progress shown to a person: a bar on a terminal, a line now and then elsewhere, nothing where quiet was asked for."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import TracebackType
from typing import Any

SECONDS_BETWEEN_LINES = 10.0
_QUIET: ContextVar[bool] = ContextVar("quiet", default=False)


@contextmanager
def quiet(wanted: bool = True) -> Iterator[None]:
    """Show no progress within."""
    token = _QUIET.set(wanted or _QUIET.get())
    try:
        yield
    finally:
        _QUIET.reset(token)


class Progress:
    """Step, loss, pairs/s, logit scale and time left of a run of `steps`, of which some may be done `already`."""

    _shown: Progress | None = None  # the one on the terminal: a further one within it stays hidden

    def __init__(self, steps: int, what: str = "training", already: int = 0, *, lines: bool = True):
        """`lines` are printed where there is no terminal."""
        self.steps, self.what, self.already = steps, what, already
        self._started = time.monotonic()
        self._last_line = -SECONDS_BETWEEN_LINES
        terminal = sys.stderr is not None and sys.stderr.isatty()
        hidden = _QUIET.get() or Progress._shown is not None
        self._bar = _bar() if terminal and not hidden else None
        self._lines = lines and not self._bar and not hidden

    def __enter__(self) -> Progress:
        if self._bar:
            Progress._shown = self
            self._bar.start()
            self._task = self._bar.add_task(self.what, total=self.steps, completed=self.already, facts="")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._bar:
            self._bar.stop()
            Progress._shown = None

    def update(self, done: int, **facts: str) -> None:
        """Show that so many steps are done, with facts about the last."""
        text = "  ".join(f"{name} {value}" for name, value in facts.items())
        if self._bar:
            self._bar.update(self._task, completed=done, facts=text)
            return
        if not self._lines:
            return
        now = time.monotonic()
        if now - self._last_line >= SECONDS_BETWEEN_LINES or done == self.steps:
            self._last_line = now
            left = (now - self._started) / max(1, done - self.already) * (self.steps - done)
            print(f"{self.what} {done}/{self.steps}  {text}  {left:.0f} s left", file=sys.stderr, flush=True)

    def note(self, sentence: str) -> None:
        """Print a sentence above the bar."""
        if bar := self._bar or (Progress._shown and Progress._shown._bar):
            bar.console.print(sentence)
        elif not _QUIET.get():
            print(sentence, file=sys.stderr, flush=True)


def _bar() -> Any:
    try:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar
    except ImportError:
        return None
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[facts]}"))
    return Bar(*columns, TimeRemainingColumn(), console=Console(stderr=True), refresh_per_second=4)
