from __future__ import annotations

import json
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from equipoise.training.logging.metrics import MetricsLog, read_metrics
from equipoise.types import UserError

MANY = {f"metric number {number}": 1.0 for number in range(50)}


def test_records_are_lines_of_json_and_come_back(tmp_path: Path) -> None:
    with MetricsLog(tmp_path / "run") as log:
        log.write(1, {"loss": 2.5})
        on_disk = [json.loads(line) for line in log.path.read_text().splitlines()]
        assert on_disk == [{"step": 1, "loss": 2.5}]  # at once, so that a killed run keeps it
        log.write(2, {"validation/mean_recall": 0.125})
    assert log.path == tmp_path / "run" / "metrics.jsonl"
    assert read_metrics(log.path) == log.records == [*on_disk, {"step": 2, "validation/mean_recall": 0.125}]


def test_tensorboard_reads_the_same_numbers(tmp_path: Path) -> None:
    with MetricsLog(tmp_path) as log:
        for step in (1, 2, 30):
            log.write(step, {"loss": 1 / step, "validation/mean_recall": step / 100})
    board = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    assert board.Tags()["scalars"] == ["loss", "validation/mean_recall"]
    assert [event.step for event in board.Scalars("loss")] == [1, 2, 30]
    assert [event.value for event in board.Scalars("loss")] == pytest.approx([1, 1 / 2, 1 / 30])


def test_what_a_killed_run_showed_beyond_its_checkpoint_is_taken_back(tmp_path: Path) -> None:
    with MetricsLog(tmp_path) as log:
        for step in (1, 2, 3):
            log.write(step, {"loss": float(step)})
    with MetricsLog(tmp_path, kept=2, step=2) as log:
        log.write(3, {"loss": 30.0})
    board = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    assert [(event.step, event.value) for event in board.Scalars("loss")] == [(1, 1), (2, 2), (3, 30)]


def test_a_line_cut_off_by_a_crash_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").write_text('{"step": 1, "loss": 2.5}\n{"step": 2, "lo')
    assert read_metrics(tmp_path / "metrics.jsonl") == [{"step": 1, "loss": 2.5}]


@pytest.mark.parametrize("in_the_way", ["run", "run/metrics.jsonl/folder", "run/tensorboard"])
def test_a_folder_that_cannot_be_written_is_one_sentence(tmp_path: Path, in_the_way: str) -> None:
    obstacle = tmp_path / in_the_way
    obstacle.parent.mkdir(parents=True, exist_ok=True)
    obstacle.touch()
    with pytest.raises(UserError, match=r"cannot write .*metrics\.jsonl: .*choose another folder"):
        MetricsLog(tmp_path / "run")


@pytest.mark.parametrize("room", [500, 2000])  # full at metrics.jsonl, which is written first, and at the event file
def test_a_full_disk_is_one_sentence_and_no_more(
    tmp_path: Path,
    room: int,
    full_disk: Callable[[int], AbstractContextManager[None]],
    capfd: pytest.CaptureFixture[str],
) -> None:
    hook = threading.excepthook

    def measure() -> None:
        with MetricsLog(tmp_path) as log:
            for step in range(9):
                log.write(step, MANY)

    with full_disk(room), pytest.raises(UserError) as caught:
        measure()
    assert str(caught.value) == (
        f"cannot write {tmp_path / 'metrics.jsonl'}: File too large; "
        "free some space or choose another folder with --out"
    )
    assert len(read_metrics(tmp_path / "metrics.jsonl")) == room // 1500
    assert capfd.readouterr().err == ""  # nor a traceback of the thread that writes for TensorBoard
    assert threading.excepthook is hook


def test_older_runs_logged_the_logit_scale_as_a_temperature(tmp_path):
    (tmp_path / "metrics.jsonl").write_text('{"step": 1, "temperature": 14.3, "mix/temperature": 20.0}\n')
    assert read_metrics(tmp_path / "metrics.jsonl") == [{"step": 1, "logit_scale": 14.3, "mix/logit_scale": 20.0}]
