"""Data of class folders is judged by accuracy: all pictures of a class have the same captions."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

import pytest
from class_pictures import SMALL, write_class_folders

from equipoise.config import load_run
from equipoise.data.remap import subset
from equipoise.evaluation.encoding import has_captions
from equipoise.finetuning.comparison import DidNotHelp
from equipoise.workflows import finetune, run_recipe
from equipoise.workflows.shift import shift_model


@pytest.fixture(scope="module")
def classes(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = write_class_folders(tmp_path_factory.mktemp("classes"))
    return ["data.name=folders", f"data.train={folder}", f"data.validation={folder}", *SMALL]


@pytest.fixture(scope="module")
def run(classes: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("run")
    more = ["training.steps=8", "training.evaluate_every=4", "training.learning_rate=3e-3"]
    assert run_recipe("flickr8k", [*classes, *more], out, "") == 0
    return out


def test_the_metric_that_chooses_is_accuracy_unless_another_is_named(classes: list[str]) -> None:
    loaded = load_run("flickr8k", classes)
    assert loaded.run.training.best == loaded.table["training"]["best"] == "acc1"
    named = load_run("flickr8k", [*classes, "training.best=mean_per_class_recall"])
    assert named.run.training.best == named.table["training"]["best"] == "mean_per_class_recall"
    assert load_run("flickr8k").run.training.best == "mean_recall"
    source = loaded.run.data.build("test")
    assert not has_captions(source)
    assert not has_captions(subset(source, range(3)))


def test_a_run_is_chosen_by_accuracy_and_shows_no_retrieval(run: Path) -> None:
    results = {path.stem for path in (run / "results").iterdir()}
    assert results == {"zero_shot"}
    assert "R@1" not in (run / "report.html").read_text(encoding="utf-8")
    best = json.loads((run / "checkpoints" / "best" / "metrics.json").read_text())
    assert "acc1" in json.dumps(best)


def test_fine_tuning_and_shifts_are_chosen_by_accuracy(run: Path, classes: list[str], tmp_path: Path) -> None:
    data = tmp_path / "classes.toml"
    data.write_text("\n".join(["[data]", *(f"{key[5:]} = {value!r}" for key, _, value in _pairs(classes))]))
    more = ["training.steps=6", "training.batch_size=8", "training.learning_rate=3e-3", "training.evaluate_every=3"]
    with suppress(DidNotHelp):  # the start may be perfect
        finetune(run, data, "wise-ft", [*more, "training.warmup_steps=0", "training.device=cpu"], tmp_path / "tuned")
    told = json.loads((tmp_path / "tuned" / "tuning.json").read_text())
    assert told["metric"] == "acc1"
    assert told["after"] == max(told["scores"])
    assert not any("R@" in name for name in told["numbers"]["validation"]["start"])
    shifted = shift_model(run, str(data), [], tmp_path / "shifted")
    assert shifted.metric == "acc1"


def _pairs(settings: list[str]) -> list[tuple[str, str, str]]:
    return [setting.partition("=") for setting in settings if setting.startswith("data.")]
