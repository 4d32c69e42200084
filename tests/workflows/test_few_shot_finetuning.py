"""`finetune --method few-shot`: a model that is there already learns classes, and the tables name every shift."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

import pytest

from equipoise.config import load_stored
from equipoise.objectives import FewShot
from equipoise.types import UserError
from equipoise.workflows import finetune, load

SMALL = (
    "data.shots=2", "data.of.validation_size=16", "data.of.test_size=16", "training.steps=4", "training.batch_size=8",
    "training.warmup_steps=1", "training.evaluate_every=2", "training.checkpoint_every=2", "training.device=cpu",
)  # fmt: skip


@pytest.mark.slow
def test_few_shots_of_a_model_folder(finished_run: Path, tmp_path: Path, capsys) -> None:
    out = tmp_path / "few"
    with suppress(UserError):  # four steps need not help
        finetune(finished_run, "few-shot-scenes", "few-shot", SMALL, out)
    told = json.loads((out / "tuning.json").read_text())
    assert told["metric"] == "acc1"
    assert {"acc1", "acc1_texture", "acc1_hue", "acc1_shifted"} <= set(told["numbers"]["test"]["tuned"])
    assert "accuracy, rotation" in capsys.readouterr().out
    run = load_stored(out / "config.toml").run
    assert isinstance(run.objective, FewShot)
    assert load(out).encode_text("a single fish").isfinite().all()
    assert "accuracy, rotation" in (out / "report.html").read_text()
