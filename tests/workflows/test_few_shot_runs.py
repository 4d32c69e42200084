"""Few-shot runs: from data to report, in micro-batches, after an interruption, and without their data."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from few_shot_settings import SMALL

from equipoise.io.digests import renew_digest
from equipoise.models.folder import CONFIG
from equipoise.training.logging.metrics import read_metrics
from equipoise.workflows import load, run_recipe


@pytest.fixture(scope="module")
def few_shot_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "few"
    assert run_recipe("few-shot-scenes", SMALL, folder, "equipoise train few-shot-scenes") == 0
    return folder


@pytest.mark.slow
def test_the_recipe_runs_from_data_to_report(few_shot_run: Path) -> None:
    records = read_metrics(few_shot_run / "metrics.jsonl")
    steps = [record for record in records if "loss" in record]
    assert len(steps) == 4
    terms = {f"loss/{term}" for term in ("classes", "m2", "v", "l", "vl")}
    assert terms | {"batch/accuracy", "mix/above_class", "mix/logit_scale"} <= set(steps[0])
    assert all(0 < record["loss"] < 50 for record in steps)
    assert {"validation/acc1", "validation/mean_per_class_recall"} <= {key for record in records for key in record}
    shifts = json.loads((few_shot_run / "results" / "shifts.json").read_text())
    wanted = {f"acc1_{name}" for name in ("texture", "background", "rotation", "hue", "shifted")}
    assert set(shifts["metrics"]) == wanted
    assert shifts["task"] == "zeroshot_classification"
    report = (few_shot_run / "report.html").read_text()
    assert "the class of a picture is recognised among 8" in report
    assert "accuracy, rotation" in report


def test_the_model_loads_without_its_data(few_shot_run: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(few_shot_run, tmp_path / "moved")
    config = (folder / CONFIG).read_text().replace('name = "scenes"', 'name = "folders"', 1)
    start, end = config.index("train_size"), config.index("[data.of.detector]")
    rest = config[config.index("[", end + 1) :]
    (folder / CONFIG).write_text(
        (config[:start] + 'train = "nowhere"\n' + rest).replace(
            'shifted_by = ["texture", "background", "rotation", "hue"]\n', ""
        )
    )
    renew_digest(folder, CONFIG)
    model = load(folder)
    torch.testing.assert_close(model.encode_text("a single fish"), load(few_shot_run).encode_text("a single fish"))
    assert "heads.m2_scale.log_scale" in model.state_dict()


@pytest.mark.slow
def test_the_same_run_again_and_in_two_parts_is_the_same(few_shot_run: Path, tmp_path: Path) -> None:
    folder = tmp_path / "again"
    run_recipe("few-shot-scenes", [*SMALL, "training.micro_batch=3"], folder, "micro-batches")
    losses = [[r["loss"] for r in read_metrics(f / "metrics.jsonl") if "loss" in r] for f in (few_shot_run, folder)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)
    shutil.rmtree(folder / "checkpoints" / "step-00000004")
    (folder / "report.html").unlink()
    assert run_recipe("few-shot-scenes", [*SMALL, "training.micro_batch=3"], folder, "on", resume=True) == 0
    again = [record["loss"] for record in read_metrics(folder / "metrics.jsonl") if "loss" in record]
    assert again == losses[1]
