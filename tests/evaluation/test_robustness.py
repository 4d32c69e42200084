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
from equipoise.evaluation.robustness import IN_DISTRIBUTION, MEAN, robustness
from equipoise.models.folder import CONFIG
from equipoise.reports.report import ExampleSets, write_report
from equipoise.runs import build_model, evaluate_folder, load
from equipoise.training.loop import train
from equipoise.types import UserError

DATA = [*SMALL, "data.shots=16", "data.of.test_size=100"]
SHIFTS = ["texture", "background", "rotation", "hue"]
MORE = {"steps": 40, "batch_size": 32, "learning_rate": 3e-3, "checkpoint_every": 40, "best": "acc1"}


def few_shot_of(start: Path) -> Loaded:
    """A run on the model at `start`: its own settings, few-shot data and objective."""
    table, few = load_stored(start / CONFIG).table, load_run("few-shot-scenes", DATA).table
    training = {**table["training"], **MORE}
    changed = {**table, "data": few["data"], "objective": few["objective"], "training": training}
    return load_settings(changed, "a test of few shots")


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
    batches = Batches(source, start.tokens, run.preprocess, batch_size=32, seed=0, views=views)
    train(model, run.objective, batches, run.training, folder=folder, config=dump(loaded.table))
    return folder


def test_a_model_that_is_there_already_learns_the_classes(learned, finished_run, tmp_path, capsys) -> None:
    """In distribution it becomes better, and the table says what became of the shifts."""
    evaluate_folder(learned, None, [], "test", tmp_path / "out", "cpu", before=finished_run)
    told = capsys.readouterr().out
    assert "accuracy before and after" in told
    numbers = json.loads((tmp_path / "out" / "results" / "robustness.json").read_text())
    sets = dict.fromkeys(name.partition("/")[0] for name in numbers)
    assert list(sets) == [IN_DISTRIBUTION, *SHIFTS, MEAN]
    assert all(name in told for name in sets)
    assert numbers[f"{IN_DISTRIBUTION}/after"] > numbers[f"{IN_DISTRIBUTION}/before"] + 0.05
    assert numbers[f"{MEAN}/after"] == pytest.approx(sum(numbers[f"{name}/after"] for name in SHIFTS) / 4)
    for name in sets:
        gained = numbers[f"{name}/after"] - numbers[f"{name}/before"]
        assert numbers[f"{name}/gained"] == gained
        assert numbers[f"{name}/forgotten"] == max(0.0, -gained)


def test_the_report_says_what_was_gained_and_forgotten(learned, finished_run, tmp_path) -> None:
    run = load_run("few-shot-scenes", DATA).run
    test = run.data.build("test")
    here, there = (evaluate(load(folder), test, run.evaluation) for folder in (finished_run, learned))
    change = robustness(there, here)  # the wrong way round, so that something is forgotten
    assert change.sets[IN_DISTRIBUTION].forgotten > 0.05
    page = write_report(
        tmp_path, title="x", facts={}, table_toml="", metrics=[], results={}, chance={}, examples=ExampleSets(),
        bibliography="", robustness=change,
    ).read_text()  # fmt: skip
    assert "What was gained and what was forgotten" in page
    assert all(f">{value}</" in page for value in change.rows()[0])
    assert change.rows()[0][-1] == f"{100 * change.sets[IN_DISTRIBUTION].forgotten:.1f}"


def test_accuracies_of_different_sets_are_not_compared(finished_run: Path) -> None:
    few = load_run("few-shot-scenes", SMALL).run
    tests = [replace(few.data, shifted_by=names).build("test") for names in (("hue",), ())]
    sides = [evaluate(load(finished_run), test, few.evaluation) for test in tests]
    with pytest.raises(
        UserError, match="same sets, not on in distribution, hue, mean of the shifts and in distribution;"
    ):
        robustness(*sides)
