"""Seconds by kind: nested, over several processes, of work that begins anew, and in a file that somebody broke."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from equipoise.types import UserError
from equipoise.workflows.audit import stopwatch
from equipoise.workflows.audit.stopwatch import COST, JUDGING, READING, TRAINING, Stopwatch, seconds_spent


class Clock:
    """A clock that is told how time passes."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch) -> Clock:
    found = Clock()
    monkeypatch.setattr(stopwatch, "time", found)
    return found


def models(clock: Clock) -> Iterator[str]:
    for name in ("first", "second"):
        clock.now += 10
        yield name


def test_every_second_counts_once_and_as_what_it_was_spent_on(tmp_path, clock):
    watch = Stopwatch(tmp_path)
    clock.now += 1000  # before anything began
    with watch.on(JUDGING):
        clock.now += 1
        with watch.on(READING):
            clock.now += 2
        for _ in watch.each(TRAINING, models(clock)):
            clock.now += 3
        clock.now += 4
    assert seconds_spent(tmp_path) == {READING: 2, TRAINING: 20, JUDGING: 1 + 3 + 3 + 4}


def test_another_process_goes_on_and_what_was_interrupted_counts(tmp_path, clock):
    def work() -> None:
        with Stopwatch(tmp_path, anew=True).on(JUDGING):
            clock.now += 5
            raise KeyboardInterrupt

    for seconds in (5, 10):
        with pytest.raises(KeyboardInterrupt):
            work()
        assert seconds_spent(tmp_path)[JUDGING] == seconds


def test_what_was_finished_is_forgotten_by_work_that_begins_anew_alone(tmp_path, clock):
    watch = Stopwatch(tmp_path)
    with watch.on(JUDGING):
        clock.now += 5
        watch.finish()
        clock.now += 1
    assert Stopwatch(tmp_path).seconds[JUDGING] == 6
    assert Stopwatch(tmp_path, anew=True).seconds[JUDGING] == 0
    assert seconds_spent(tmp_path)[JUDGING] == 6  # until something is counted


def test_without_a_folder_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with Stopwatch(None).on(JUDGING):
        pass
    assert list(tmp_path.iterdir()) == []
    assert seconds_spent(tmp_path) == {}


@pytest.mark.parametrize("content", ["", "[]", json.dumps({JUDGING: "long"}), json.dumps({JUDGING: -1})])
def test_a_broken_file_is_one_sentence(tmp_path: Path, content: str):
    (tmp_path / COST).write_text(content)
    with pytest.raises(UserError, match=r"cost\.json.*remove it to count from 0"):
        Stopwatch(tmp_path)
