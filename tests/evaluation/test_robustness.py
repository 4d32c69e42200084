"""What becomes of a model's accuracies, in distribution and shifted, when it learns classes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from few_shot_settings import SMALL

from equipoise.config import Loaded, dump, load_run, load_settings, load_stored
from equipoise.data.batches import Batches
from equipoise.evaluation.evaluate import evaluate
from equipoise.evaluation.robustness import IN_DISTRIBUTION, MEAN, AccuracyChange, Robustness, robustness
from equipoise.models.folder import CONFIG
from equipoise.reports.report import ExampleSets, write_report
from equipoise.training.loop import train
from equipoise.types import UserError
from equipoise.workflows import build_model, evaluate_folder, load

DATA = [*SMALL, "data.shots=2", "data.of.test_size=40"]
SHIFTS = ["texture", "background", "rotation", "hue"]
MORE = {"steps": 80, "batch_size": 16, "learning_rate": 1e-2, "checkpoint_every": 80, "best": "acc1"}


def few_shot_of(start: Path) -> Loaded:
    """A run on the model at `start`: its own settings, few-shot data and objective."""
    table, few = load_stored(start / CONFIG).table, load_run("few-shot-scenes", DATA).table
    training = {**table["training"], **MORE}
    uncropped = {**table["preprocess"], "crop_scale": [1.0, 1.0], "crop_ratio": [1.0, 1.0]}  # quicker to learn
    changed = {"data": few["data"], "objective": few["objective"], "training": training, "preprocess": uncropped}
    return load_settings({**table, **changed}, "a test of few shots")


@pytest.fixture(scope="module")
def learned(finished_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that began with the weights of another and learned classes."""
    loaded, start, folder = few_shot_of(finished_run), load(finished_run), tmp_path_factory.mktemp("learned")
    run = loaded.run
    model = build_model(run, start.tokens)
    missing = model.load_state_dict(start.state_dict(), strict=False)
    assert missing.missing_keys == ["heads.m2_scale.log_scale"]
    assert not missing.unexpected_keys
    source, views = run.data.build("train"), run.objective.views
    batches = Batches(source, start.tokens, run.preprocess, batch_size=16, seed=0, views=views)
    train(model, run.objective, batches, run.training, folder=folder, config=dump(loaded.table))
    return folder


@pytest.mark.slow
def test_a_model_that_is_there_already_learns_the_classes(learned, finished_run) -> None:
    run = load_run("few-shot-scenes", DATA).run
    shots = run.data.build("train")
    before, after = (evaluate(load(folder), shots, run.evaluation) for folder in (finished_run, learned))
    assert len(shots) == 16
    assert "shifts" not in after
    assert after["zero_shot"].metrics["acc1"] > before["zero_shot"].metrics["acc1"] + 0.3


@pytest.mark.slow
def test_the_table_has_every_set_before_and_after(learned, finished_run, tmp_path, capsys) -> None:
    evaluate_folder(learned, None, [], "test", tmp_path / "out", "cpu", before=finished_run)
    told = capsys.readouterr().out
    assert "accuracy before and after" in told
    numbers = json.loads((tmp_path / "out" / "results" / "robustness.json").read_text())
    sets = dict.fromkeys(name.partition("/")[0] for name in numbers)
    assert list(sets) == [IN_DISTRIBUTION, *SHIFTS, MEAN]
    assert all(name in told for name in sets)
    assert numbers[f"{MEAN}/after"] == pytest.approx(sum(numbers[f"{name}/after"] for name in SHIFTS) / 4)
    for name in sets:
        gained = numbers[f"{name}/after"] - numbers[f"{name}/before"]
        assert numbers[f"{name}/gained"] == gained
        assert numbers[f"{name}/forgotten"] == max(0.0, -gained)
    assert any(numbers[f"{name}/gained"] for name in sets)


@pytest.mark.slow
def test_the_report_says_what_was_gained_and_forgotten(learned, finished_run, tmp_path) -> None:
    run = load_run("few-shot-scenes", DATA).run
    test = run.data.build("test")
    here, there = (evaluate(load(folder), test, run.evaluation) for folder in (finished_run, learned))
    change = robustness(here, there)
    back = robustness(there, here)
    lost = {name for side in (change, back) for name, one in side.sets.items() if one.forgotten}
    assert lost == {name for name, one in change.sets.items() if one.gained}  # one way or the other
    page = write_report(
        tmp_path, title="x", facts={}, table_toml="", metrics=[], results={}, chance={}, examples=ExampleSets(),
        bibliography="", robustness=change,
    ).read_text()  # fmt: skip
    assert "What was gained and what was forgotten" in page
    assert all(f">{value}</" in page for value in change.rows()[0])


def test_accuracies_of_different_sets_are_not_compared(finished_run: Path) -> None:
    few = load_run("few-shot-scenes", SMALL).run
    tests = [replace(few.data, shifted_by=names).build("test") for names in (("hue",), ())]
    sides = [evaluate(load(finished_run), test, few.evaluation) for test in tests]
    with pytest.raises(
        UserError, match="same sets, not on in distribution, hue, mean of the shifts and in distribution;"
    ):
        robustness(*sides)


def test_rows_as_they_are_printed() -> None:
    change = Robustness({IN_DISTRIBUTION: AccuracyChange(0.125, 0.25, 0.5), "hue": AccuracyChange(0.125, 0.3, 0.175)})
    assert change.rows() == [
        (IN_DISTRIBUTION, "12.5%", "25.0%", "50.0%", "+25.0", ""),
        ("hue", "12.5%", "30.0%", "17.5%", "-12.5", "12.5"),
    ]
