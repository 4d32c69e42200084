"""Runs of ALBEF and TCL: queues, teacher and lots come back with a checkpoint, and the numbers are the same."""

from __future__ import annotations

import signal

import pytest
import torch
from safetensors.torch import load_file
from small_run import sent, small_run
from test_resume import LAST, assert_same

SHORT = (
    "objective.queue=16",  # which 8 steps of 8 fill four times
    "objective.fusion.layers=1",
    "objective.fusion.heads=2",
    "objective.ramp=0.5",
    "tokens.kind=wordpiece",
    "text.name=bert-nano",
    "text.layers=1",
)
MEMORY = "memory/heads.queue."


@pytest.mark.slow
@pytest.mark.parametrize("name", [pytest.param("albef", marks=pytest.mark.slow), "tcl"])
def test_a_run_that_was_stopped_goes_on_bit_for_bit(tmp_path, name):
    settings = (f"objective.name={name}", *SHORT)
    alone, run = (small_run(tmp_path / folder, *settings) for folder in ("alone", "run"))
    alone.go()
    run.go(until=4)
    assert run.go({6: sent(signal.SIGTERM)}, resume=True).step == 6
    run.go(resume=True)
    assert_same(run, alone)
    kept = {key: tensor for key, tensor in load_file(run.folder / LAST / "training.safetensors").items()
            if key.startswith(MEMORY)}  # fmt: skip
    assert {key.removeprefix(MEMORY) for key in kept} == {"image_queue", "text_queue", "place", "filled"}
    assert int(kept[f"{MEMORY}filled"]) == 16
    assert int(kept[f"{MEMORY}place"]) == 0
    lengths = torch.cat([kept[f"{MEMORY}{side}_queue"].norm(dim=1) for side in ("image", "text")])
    torch.testing.assert_close(lengths, torch.ones(32))


def test_the_log_has_every_term(tmp_path):
    run = small_run(tmp_path / "run", "objective.name=tcl", *SHORT)
    records = [record for record in run.go(until=2).records if "loss" in record]
    for term in ("contrastive", "in_modal", "local", "match", "words"):
        assert all(record[f"loss/{term}"] > 0 for record in records), term
    first, second = records
    assert first["alpha"] == 0
    assert second["alpha"] == pytest.approx(0.4 * 1 / 2.5)  # 40 samples are an epoch of five steps
    assert 0 <= first["match_accuracy"] <= 1
