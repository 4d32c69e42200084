"""`equipoise autotune`: the search finds the fastest that fits, tries are kept, and the recipe it writes trains."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from equipoise.cli import main
from equipoise.config import load_run
from equipoise.types import UserError
from equipoise.workflows.autotune import AutotuneRequest
from equipoise.workflows.autotune.attempt import Trainer, throughput
from equipoise.workflows.autotune.search import KEYS, Space, Tried, faster, search

START = {"micro_batch": 0, "precision": "auto", "compile": False, "cuda_graphs": False, "workers": 0}
SMALL = ["data.train_size=40", "data.validation_size=8", "data.test_size=8", "preprocess.size=16", "image.patch=8"]
SMALL += ["training.batch_size=8", "training.device=cpu"]
SET = [word for setting in SMALL for word in ("--set", setting)]


def machine(room: int):
    """One with room for so many samples at once; compiling and two loaders help, a third does not."""

    def attempt(settings) -> Tried:
        at_once = settings["micro_batch"] or 64
        if at_once > room:
            return Tried(settings, why="memory ran out")
        rate = 100 + at_once + 50 * settings["compile"] + 20 * min(settings["workers"], 2) - settings["workers"]
        return Tried(settings, float(rate))

    return attempt


@pytest.mark.parametrize(("room", "micro_batch"), [(64, 0), (40, 32), (10, 8)])
def test_the_search_finds_the_fastest_that_fits(room, micro_batch):
    space = Space(START, 64, (), 4)
    made = list(search(space, machine(room)))
    best = None
    for tried in made:
        best = faster(best, tried)
    assert best is not None
    assert best.settings == {**START, "micro_batch": micro_batch, "compile": True, "workers": 2}
    assert len(made) <= space.most_tries() == 7
    assert [tried.why for tried in made[: made.index(best)]].count("memory ran out") == {64: 0, 40: 1, 10: 3}[room]


def test_the_recipe_s_own_settings_come_first_and_once():
    space = Space({**START, "micro_batch": 16, "compile": True, "workers": 4}, 64, ("bf16",), 4)
    made = list(search(space, machine(64)))
    assert made[0].settings == space.start
    assert len({json.dumps(tried.settings) for tried in made}) == len(made) <= space.most_tries()
    assert {tried.settings["precision"] for tried in made} == {"auto", "bf16"}


@pytest.mark.parametrize(
    ("precision", "asked", "gpu", "bf16", "tried"),
    [
        ("float32", (), True, True, {"float32", "bf16"}),
        ("float32", (), True, False, {"float32"}),
        ("float32", (), False, False, {"float32"}),
        ("float32", ("tf32", "bf16"), True, True, {"float32", "tf32", "bf16"}),
        ("auto", (), True, True, {"auto"}),
        ("tf32", (), True, True, {"tf32"}),
    ],
)
def test_what_a_device_is_tried_with(precision, asked, gpu, bf16, tried):
    space = Space({**START, "precision": precision}, 64, asked, 4, gpu, bf16)
    made = list(search(space, machine(64)))
    assert {one.settings["precision"] for one in made} == tried
    assert {one.settings["cuda_graphs"] for one in made} == {False, gpu}
    assert len({json.dumps(one.settings) for one in made}) == len(made) <= space.most_tries()


def test_a_refused_recording_is_a_row_and_never_the_best():
    def attempt(settings) -> Tried:
        refused = settings["cuda_graphs"]
        why = "training.cuda_graphs = true cannot record this model"
        return Tried(settings, why=why) if refused else fits(settings)

    fits, best = machine(64), None
    made = list(search(Space(START, 64, (), 4, gpu=True, bf16=True), attempt))
    for tried in made:
        best = faster(best, tried)
    assert sum("cannot record" in tried.why for tried in made) == 1
    assert best is not None
    assert best.settings == {**START, "compile": True, "workers": 2}


def test_nothing_fits():
    made = list(search(Space(START, 64, (), 1), machine(1)))
    assert not any(tried.fits for tried in made)


def test_pairs_per_second_leave_out_the_beginning():
    """Ten seconds for the first steps, then a step of eight pairs each half second."""
    steps = [(1.0, 9.0), (2.0, 10.0), *((3.0 + n, 10.5 + n / 2) for n in range(20))]
    assert throughput(steps, 8) == pytest.approx(16.0)
    assert throughput(steps[:2], 8) == 0.0


@pytest.mark.slow
def test_a_try_that_cannot_be_is_a_row(tmp_path):
    """As want of memory is: the sentence with which the run ended."""
    trainer = Trainer("clip-scenes", [*SMALL, "training.batch_size=1"], (), tmp_path / "try", 1.0, 8)
    tried = trainer.attempt(START)
    assert not tried.fits
    assert "batch_size 1" in tried.why
    assert not (tmp_path / "try").exists()


@pytest.mark.slow
def test_tries_are_kept_and_the_recipe_trains(tmp_path, capsys):
    """All tries but one are known: that one is made, the fastest is written, and no try is made twice."""
    recipe, out = tmp_path / "own.toml", tmp_path / "deep" / "tuned.toml"
    recipe.write_text('extends = "clip-scenes"\n')
    words = ["autotune", str(recipe), *SET, "--seconds", "2", "--out", str(out)]
    folder = out.with_name("tuned.toml.tries")
    with pytest.MonkeyPatch.context() as stop:  # the note is made, and no try
        stop.setattr(Trainer, "attempt", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        assert main(words) == 130
    space = Space(START, 8, (), os.cpu_count() or 1)
    known = [
        one
        for one in search(space, lambda tried: Tried(tried, 1.0 if tried == START else 0.001))
        if one.settings != START
    ]
    (folder / "tries.json").write_text(json.dumps({"tries": [vars(one) for one in known]}))
    capsys.readouterr()
    assert main(words) == 0
    said = capsys.readouterr().out
    assert f"At most {space.most_tries()}" in said
    stored = json.loads((folder / "tries.json").read_text())["tries"]
    measured = next(one for one in stored if one["settings"] == START)
    assert measured["pairs_per_second"] > 1
    tuned = load_run(str(out), SMALL).run.training
    assert {key: getattr(tuned, key) for key in KEYS} == START
    assert main(words) == 0
    assert json.loads((folder / "tries.json").read_text())["tries"] == stored
    assert main(["train", str(out), *SET, "--set", "training.steps=2", "--out", str(tmp_path / "run")]) == 0


def test_mistakes_are_one_sentence_each(tmp_path):
    for wish, fragment in (
        ({"seconds": 0.0}, "--seconds"),
        ({"precisions": ["float4"]}, "float4"),
        ({"out": Path("tuned")}, ".toml"),
    ):
        with pytest.raises(UserError, match=fragment):
            AutotuneRequest(**{"recipe": "demo", "out": tmp_path / "a.toml", **wish})
