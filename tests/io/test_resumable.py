"""Work cut into numbered files: what is told of its progress."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from equipoise.io import progress
from equipoise.io.resumable import NumberedFiles


def fill(path: Path, batches: Iterator[range]) -> None:
    path.write_text(str([list(batch) for batch in batches]))


def test_work_that_is_taken_up_again_tells_the_time_of_what_is_left(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files that are there took no time today: 20 s for two records make 50 for the five that are left."""
    seconds = iter(range(100, 1000, 20))
    monkeypatch.setattr(progress.time, "monotonic", lambda: float(next(seconds)))
    files = NumberedFiles(tmp_path, 11, 4, ".txt")
    files.write(1, fill, 2)
    files.write_missing(fill, 2, "reading")
    assert capsys.readouterr().err.splitlines() == [
        "reading 6/11    50 s left",
        "reading 8/11    30 s left",
        "reading 10/11    10 s left",
        "reading 11/11    0 s left",
    ]
    assert [path.read_text() for path in files.paths()] == [
        "[[0, 1], [2, 3]]", "[[4, 5], [6, 7]]", "[[8, 9], [10]]",
    ]  # fmt: skip
    files.write_missing(fill, 2, "reading")
    assert capsys.readouterr().err == "", "nothing is left to tell of"
