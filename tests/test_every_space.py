"""Every space through a whole run: training, checkpoint, resume, model folder, retrieval, zero-shot, report."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import torch
from every_space import NAMES

from equipoise.config import load_run
from equipoise.evaluation import EVALUATIONS
from equipoise.evaluation.evaluate import evaluate
from equipoise.models.folder import step_folders
from equipoise.training.logging.metrics import read_metrics
from equipoise.types import UserError
from equipoise.workflows import load, run_recipe, train_run


def settings_of(name: str) -> list[str]:
    space, _, distance = name.partition("-")
    if not distance:
        return [f"space.name={space}", "space.dim=16"]
    return [f"space.name={space}", "space.n=4", "space.m=4", f"space.distance={distance}"]


def without_dim(tiny_settings: tuple[str, ...]) -> list[str]:
    return [setting for setting in tiny_settings if not setting.startswith("space.")]


@pytest.mark.parametrize("name", [NAMES[0], *(pytest.param(name, marks=pytest.mark.slow) for name in NAMES[1:])])
def test_a_run_in_every_space(name: str, tmp_path: Path, tiny_settings: tuple[str, ...]) -> None:
    settings = [*without_dim(tiny_settings), *settings_of(name), "objective.impl=tiled", "training.checkpoint_every=1"]
    folder = tmp_path / "run"
    assert run_recipe("demo", settings, folder, "equipoise demo") == 0
    model = load(folder)
    assert torch.equal(model.encode_text("a red fish"), load(step_folders(folder)[-1]).encode_text("a red fish"))
    low, high = model.space.range
    u, v = model.encode_image(torch.zeros(1, 3, 32, 32, dtype=torch.uint8)), model.encode_text(["a fish", "a star"])
    similarity = model.similarity(u, v)
    assert ((low - 1e-5 <= similarity) & (similarity <= high + 1e-5)).all()
    assert json.loads((folder / "metrics.json").read_text())["logit_scale/final"] > 0

    for average in ("similarity", "embedding"):
        run = load_run("demo", [*settings, f"evaluation.average={average}"]).run
        test = run.data.build("test")
        found = evaluate(model, test, run.evaluation)
        assert found.keys() == {name for name, one in EVALUATIONS.items() if one.applies(test) and one.suits(model)}
        lie = found.pop("geometry").metrics
        assert all(math.isfinite(value) for value in lie.values())
        assert low <= lie["positive_similarity"] <= high
        assert all(0 <= value <= 600 for finding in found.values() for value in finding.metrics.values() if value < 1e3)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_run_goes_on_as_if_it_had_never_stopped(name: str, tmp_path: Path, tiny_settings: tuple[str, ...]) -> None:
    settings = [
        *without_dim(tiny_settings),
        *settings_of(name),
        "training.checkpoint_every=1",
        "training.warmup_steps=0",
    ]
    whole, _ = train_run(load_run("demo", [*settings, "training.steps=3"]), tmp_path / "whole")
    train_run(load_run("demo", [*settings, "training.steps=3"]), tmp_path / "parts")
    for step in step_folders(tmp_path / "parts")[1:]:
        for file in step.iterdir():
            file.unlink()
        step.rmdir()
    again, outcome = train_run(load_run("demo", [*settings, "training.steps=3"]), tmp_path / "parts")
    assert outcome.step == 3
    assert len([r for r in read_metrics(tmp_path / "parts" / "metrics.jsonl") if "loss" in r]) == 3
    for (key, a), b in zip(whole.state_dict().items(), again.state_dict().values(), strict=True):
        assert torch.equal(a, b), key


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (["space.name=product_sphere", "space.n=4", "space.m=4", "space.dim=15"], r"dim is 15, but n·m = 4·4 = 16"),
        (["space.name=product_sphere", "space.m=0"], r"space: m is 0; a product needs m >= 1"),
        (["space.name=product_sphere", "space.n=1"], r"space: n is 1; each sphere"),
        (["space.name=product_sphere", "space.distance=cosine"], r"distance must be one of inner, geodesic"),
        (["space.name=prodct_sphere"], r'did you mean "product_sphere"\?'),
    ],
)
def test_a_space_that_makes_no_sense_is_refused_where_it_was_written(settings: list[str], sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        load_run("demo", settings)


def test_the_stored_table_holds_n_and_m_and_gives_the_same_space_again() -> None:
    loaded = load_run("demo", ["space.name=product_sphere", "space.n=4", "space.m=3", "space.distance=geodesic"])
    assert loaded.table["space"] == {"name": "product_sphere", "n": 4, "m": 3, "distance": "geodesic"}
    assert loaded.run.space.dim == 12
