"""Decisions by hand when the data is judged again: they stay on their captions, and on nothing else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from equipoise.data.keep.carry_decisions import carry_decisions
from equipoise.data.keep.decisions import DECISIONS, Decisions, read_decisions
from equipoise.data.keep.file import NOTE, KeepTable, read_keep, write_keep
from equipoise.data.keep.save_decisions import save_decisions
from equipoise.types import UserError

BY_HAND = Decisions(0.4, {1: False, 4: True, 6: True}, {6: 0})


def table(right: np.ndarray) -> KeepTable:
    keys = [f"record {row // 2}" for row in range(len(right))]
    numbers, keep = np.arange(len(right)) % 2, right >= 0.5
    return KeepTable(keys, numbers, 7 * np.arange(len(right)), right, keep, keep * 1.0, [""] * len(right))


@pytest.fixture
def before() -> KeepTable:
    return table(np.linspace(0, 1, 8, dtype=np.float32))


@pytest.fixture
def folder(before: KeepTable, tmp_path: Path) -> Path:
    write_keep(tmp_path, before, {"noise": 0.5})
    save_decisions(tmp_path, before, BY_HAND)
    return tmp_path


def judged_again(folder: Path, now: KeepTable) -> None:
    carry_decisions(folder, now)
    write_keep(folder, now, {"noise": 0.4})


def test_they_stay_on_their_captions(folder: Path, before: KeepTable, capsys) -> None:
    judged_again(folder, table(before.right[::-1].copy()))
    assert read_decisions(folder, read_keep(folder)[0]) == replace(BY_HAND, threshold=None)
    said = capsys.readouterr().out
    assert said == (
        f"{folder / DECISIONS}: 3 decisions by hand stay, for they are on captions; the threshold 0.4 goes, for it was "
        "one of other probabilities\n"
    )
    judged_again(folder, table(before.right[::-1] / 2))
    assert "threshold" not in capsys.readouterr().out


def test_the_same_probabilities_change_nothing(folder: Path, before: KeepTable, capsys) -> None:
    content = (folder / DECISIONS).read_bytes()
    judged_again(folder, replace(before, keep=~before.keep))
    assert (folder / DECISIONS).read_bytes() == content
    assert not capsys.readouterr().out


@pytest.mark.parametrize("cut", ["before the note went", "after it", "after the table"])
def test_a_run_that_is_killed_in_between_goes_on_to_the_same(cut: str, folder: Path, before: KeepTable) -> None:
    now = table(before.right[::-1].copy())
    carry_decisions(folder, now)
    if cut != "before the note went":
        (folder / NOTE).unlink()
    if cut == "after the table":
        write_keep(folder, now, {"noise": 0.4})
        (folder / NOTE).unlink()
    judged_again(folder, now)
    assert read_decisions(folder, read_keep(folder)[0]) == replace(BY_HAND, threshold=None)


def test_those_on_other_captions_are_refused_as_before(folder: Path, before: KeepTable, capsys) -> None:
    content = (folder / DECISIONS).read_bytes()
    others = replace(table(before.right[::-1].copy()), fingerprints=np.arange(8))
    judged_again(folder, others)
    assert (folder / DECISIONS).read_bytes() == content
    assert not capsys.readouterr().out
    with pytest.raises(UserError, match="was made for another keep file"):
        read_decisions(folder, read_keep(folder)[0])


@pytest.mark.parametrize("content", [b"{", b"[]", b'{"kind": "something"}'])
def test_what_cannot_be_read_is_left(content: bytes, folder: Path, before: KeepTable) -> None:
    (folder / DECISIONS).write_bytes(content)
    judged_again(folder, table(before.right[::-1].copy()))
    assert (folder / DECISIONS).read_bytes() == content


def test_without_decisions_there_is_nothing_to_carry(folder: Path, before: KeepTable) -> None:
    (folder / DECISIONS).unlink()
    judged_again(folder, table(before.right[::-1].copy()))
    assert not (folder / DECISIONS).exists()
