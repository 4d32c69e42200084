from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from threading import Thread

import pytest

from equipoise.io import progress as module
from equipoise.io.progress import Progress


def seen_on_a_terminal(work: Callable[[], None], monkeypatch: pytest.MonkeyPatch) -> str:
    """What a person sees who runs `work` in a real (pseudo) terminal."""
    pty = pytest.importorskip("pty")
    near, far = pty.openpty()
    seen = bytearray()

    def look() -> None:
        with suppress(OSError):  # how a terminal that was closed answers
            while piece := os.read(near, 4096):
                seen.extend(piece)

    person = Thread(target=look)
    person.start()
    with os.fdopen(far, "w") as stream, monkeypatch.context() as patch:
        patch.setattr(sys, "stderr", stream)
        patch.setenv("TERM", "xterm")
        work()
    person.join(timeout=10)
    os.close(near)
    return seen.decode()


def work(steps: int) -> None:
    with Progress(steps) as progress:
        for step in range(1, steps + 1):
            progress.update(step, loss=f"{1 / step:.3f}")
        progress.note("all is well")


def test_elsewhere_than_on_a_terminal_there_are_few_lines(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module.time, "monotonic", lambda: 100.0)  # the first step of a busy machine takes its time
    work(1000)
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == [
        "training 1/1000  loss 1.000  0 s left",
        "training 1000/1000  loss 0.001  0 s left",
        "all is well",
    ]


def test_the_time_left_is_told(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = iter([100.0, 112.0])
    monkeypatch.setattr(module.time, "monotonic", lambda: next(seconds))
    with Progress(40, "writing") as progress:
        progress.update(10)
    assert capsys.readouterr().err == "writing 10/40    36 s left\n"


def test_on_a_terminal_there_is_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = seen_on_a_terminal(lambda: work(3), monkeypatch)
    for words in ("training", "3/3", "loss 0.333", "all is well"):
        assert words in seen
    assert seen.count("\x1b[?25l") == seen.count("\x1b[?25h") > 0  # the cursor is hidden, then back
