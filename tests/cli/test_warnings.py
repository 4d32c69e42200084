"""Warnings of a command: one line each, and the same sentence once, whatever becomes of Python's filters between."""

from __future__ import annotations

import warnings

import pytest

import equipoise.cli.run as run
from equipoise.types import Notice


def test_the_same_sentence_is_printed_once_a_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def work(_: object) -> int:
        for _ in range(3):
            warnings.warn("1 record is left out", stacklevel=1)
            warnings.warn("another one is\nleft out", stacklevel=1)
            warnings.warn("1 record is left out", Notice, stacklevel=1)
            with warnings.catch_warnings():  # what any library does: Python forgets what it has shown
                warnings.simplefilter("ignore")
        return 0

    monkeypatch.setattr(run, "_run", work)
    for _ in range(2):
        run.run(["recipes"])
        assert capsys.readouterr().err.splitlines() == [
            "equipoise: warning: 1 record is left out",
            "equipoise: warning: another one is left out",
            "equipoise: 1 record is left out",
        ]
