"""Data of class folders is judged by accuracy: all pictures of a class have the same captions."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

import pytest
from class_pictures import SMALL, write_class_folders

from equipoise.config import load_layers, load_run, load_stored
from equipoise.data.remap import subset
from equipoise.evaluation.encoding import has_captions
from equipoise.finetuning.comparison import DidNotHelp
from equipoise.finetuning.layers import finetuning_layers
from equipoise.finetuning.methods import METHODS
from equipoise.objectives import CLIP, OBJECTIVES, FewShot, Objective
from equipoise.targets import Duplicates, Smoothed
from equipoise.types import Notice, UserError
from equipoise.workflows import finetune, run_recipe
from equipoise.workflows.finetune import for_classes
from equipoise.workflows.shift import shift_model
from equipoise.workflows.start_model import load_start


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
    assert results == {"zero_shot", "consistency"}
    assert "R@1" not in (run / "report.html").read_text(encoding="utf-8")
    best = json.loads((run / "checkpoints" / "best" / "metrics.json").read_text())
    assert "acc1" in json.dumps(best)


@pytest.mark.slow
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


@pytest.fixture(scope="module")
def recipe(classes: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    data = tmp_path_factory.mktemp("recipe") / "classes.toml"
    data.write_text("\n".join(["[data]", *(f"{key[5:]} = {value!r}" for key, _, value in _pairs(classes))]))
    return data


SHORT = ("training.steps=2", "training.batch_size=8", "training.evaluate_every=2", "training.device=cpu")
PROMPTS = ("prompts.depth=1",)


def tuned_objective(run: Path, data: Path | str, method: str, out: Path) -> Objective:
    """What a method trained by, read from its folder."""
    with suppress(DidNotHelp):
        finetune(run, data, method, SHORT, out)
    return load_stored(out / "config.toml").run.objective


def objective_of(run: Path, data: Path, method: str, *more: str) -> Objective:
    """What a method is to train by."""
    further = PROMPTS if method == "maple" else ()
    layers = finetuning_layers(str(run), load_start(run).table, data, method, (*SHORT, *further, *more))
    return load_layers(*for_classes(layers, method)).run.objective


@pytest.mark.parametrize("method", [name for name, one in METHODS.items() if one.trains])
@pytest.mark.filterwarnings("ignore::equipoise.types.Notice")
def test_no_method_takes_pictures_of_one_class_for_negatives(run: Path, recipe: Path, method: str) -> None:
    """Every method has class targets, or refuses."""
    if method in ("i-mix", "un-mix"):
        with pytest.raises(UserError, match=r"names of classes, but the objective .*negatives"):
            objective_of(run, recipe, method)
        return
    objective = objective_of(run, recipe, method)
    assert isinstance(objective, FewShot)
    weights = (objective.m2_weight > 0, objective.v_weight > 0)
    assert weights == {"m2mix": (True, False), "m3mix": (True, True), "few-shot": (True, True)}.get(
        method, (False, False)
    )


def test_what_is_said_of_the_objective_stands_or_is_refused(run: Path, recipe: Path) -> None:
    with pytest.warns(Notice, match="few_shot_m2 in place of m2mix"):
        mixed = objective_of(run, recipe, "m2mix", "objective.m2_weight=0.3")
    assert isinstance(mixed, FewShot)
    assert mixed.m2_weight == 0.3
    plain = objective_of(run, recipe, "ft", "objective.target.name=labels")
    assert isinstance(plain, CLIP)
    for said in (["objective.name=clip"], ["objective.name=softclip"], ["objective.form.name=sigmoid"]):
        with pytest.raises(UserError, match="would be each other's negatives"):
            objective_of(run, recipe, "lora", *said)
    softened = CLIP(target=Smoothed(of=Duplicates(same=("label",))))
    assert softened.matches_classes
    assert not CLIP(target=Smoothed()).matches_classes
    assert not OBJECTIVES["m3mix"]().matches_classes


@pytest.mark.filterwarnings("ignore::equipoise.types.Notice")
def test_runs_train_by_it_with_and_without_a_recipe(run, recipe, classes, tmp_path) -> None:
    folder = classes[1].partition("=")[2]
    assert isinstance(tuned_objective(run, folder, "wise-ft", tmp_path / "folders"), FewShot)
    assert isinstance(tuned_objective(run, recipe, "lp-ft", tmp_path / "recipe"), FewShot)
    with pytest.raises(UserError, match="negatives"):
        tuned_objective(run, recipe, "i-mix", tmp_path / "refused")
    assert not (tmp_path / "refused").exists()


def _pairs(settings: list[str]) -> list[tuple[str, str, str]]:
    return [setting.partition("=") for setting in settings if setting.startswith("data.")]
