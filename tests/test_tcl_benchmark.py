"""benchmarks/tcl.py: the rate that validation data choose, both stages of a row, differences paired by seed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import tcl

from equipoise.config import load_run
from equipoise.data.shard_writer import write_shards

TINY = (
    "data.train=train-000.tar", "data.validation=validation-000.tar", "data.test=test-000.tar", "tokens.vocabulary=600",
    "preprocess.size=32", "image.width=16", "image.layers=1", "text.width=16", "text.layers=1", "space.dim=16",
    "training.steps=2", "training.warmup_steps=1", "training.batch_size=16", "evaluation.captions=1",
)  # fmt: skip


def cell(validation: float, points: float, ranked: float | None = None) -> dict[str, float]:
    found = {f"test/retrieval/{key}": points for key in tcl.COLUMNS.values()}
    found["validation/retrieval/mean_recall"] = validation
    if ranked is not None:
        found |= {f"test/two_stage/{key}": ranked for key in tcl.COLUMNS.values()}
        found["validation/two_stage/mean_recall"] = validation
    return found


def test_the_rate_is_chosen_on_validation_data_by_the_first_seeds():
    found = {f"CLIP {rate:g}": [cell(0.1, 0.9), cell(0.1, 0.9), cell(0.9, 0.9)] for rate in tcl.RATES}
    found["CLIP 0.001"] = [cell(0.2, 0.1)] * 2
    assert tcl.chosen(found) == {"CLIP": "CLIP 0.001"}, "TCL was not tried, and test data say nothing"
    del found["CLIP 0.0005"]
    assert tcl.chosen(found) == {}


def test_a_row_is_chosen_as_it_ranks_in_the_end():
    found = {f"TCL {rate:g}": [cell(0.1, 0.2, 0.2)] * 2 for rate in tcl.RATES}
    found["TCL 0.002"] = [{**cell(0.1, 0.2, 0.2), "validation/two_stage/mean_recall": 0.3}] * 2
    assert tcl.chosen(found) == {"TCL": "TCL 0.002"}


def test_differences_are_paired_by_seed():
    found = {"CLIP 0.001": [cell(0, 0.10), cell(0, 0.20)], "TCL 0.001": [cell(0, 0.12, 0.13), cell(0, 0.22, 0.23)]}
    told = tcl.stages(found, {"CLIP": "CLIP 0.001", "TCL": "TCL 0.001"})
    assert list(told) == ["CLIP", "TCL, by points", "TCL, in two stages"]
    rows = tcl.gains(told).splitlines()[2:]
    assert [row.split(" | ")[1] for row in rows] == ["+2.0 (+2.0 to +2.0)", "+3.0 (+3.0 to +3.0)"]
    told["CLIP"].pop()
    assert len(tcl.gains(told).splitlines()) == 2, "without a partner for each seed nothing is said"


@pytest.mark.slow
def test_its_smallest_form_trains_every_rate_and_reports_both_stages(tmp_path: Path, capfd):
    data = load_run("demo", ["data.train_size=64", "data.validation_size=16", "data.test_size=16"]).run.data
    for split in ("train", "validation", "test"):
        (shard,) = write_shards(data.build(split), tmp_path / split, 32)
        shard.rename(tmp_path / f"{split}-000.tar")
    small = [word for text in (f"data.root={tmp_path}", *TINY) for word in ("--set", text)]
    words = ["--out", str(tmp_path / "cells"), "--seeds", "2", *small]
    told = tcl.main(words)
    files = sorted(path.name for path in (tmp_path / "cells").glob("*.json"))
    assert len(files) == len(tcl.ROWS) * len(tcl.RATES) * 2
    assert list(told) == ["CLIP", "TCL, by points", "TCL, in two stages"]
    out = capfd.readouterr().out
    assert "gain over CLIP" in out
    assert "FAILED" not in out
    for name, prefix in (("TCL, by points", "retrieval"), ("TCL, in two stages", "two_stage")):
        at = [json.loads(path.read_text()) for path in (tmp_path / "cells").glob("TCL-*-0.json")]
        key = f"test/{prefix}/mean_recall"
        assert told[name][0]["mean_recall"] in [one["found"][key] for one in at]
    assert tcl.main([*words, "--report"]) == told, "a report trains nothing"
