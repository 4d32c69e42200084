"""The recipes that read files, two steps each, from the command line, with worker processes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from some_files import records, write_tar

from equipoise.cli import main

TINY = (
    "training.steps=2", "training.batch_size=4", "training.evaluate_every=0", "training.workers=1",
    "image.width=16", "image.layers=1", "text.width=16", "text.layers=1", "tokens.vocabulary=600",
)  # fmt: skip
ROOTS = {
    "flickr8k": ("data.root={}",),
    "fashion": ("data.root={}",),
    **dict.fromkeys(("coca-flickr8k", "coca-coco"), ("data.root={}", "objective.decoder.layers=1")),
    **dict.fromkeys(("tcl-flickr8k", "tcl-coco"), ("data.root={}", "objective.fusion.layers=1")),
    "flickr8k-fashion": ("data.parts.flickr8k.root={}", "data.parts.fashion.root={}"),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shards")
    for number in range(7):
        write_tar(folder / f"train-{number:03d}.tar", records(30, start=30 * number))
    write_tar(folder / "dev-000.tar", records(6, start=210))
    return folder


@pytest.mark.parametrize(
    "recipe", ["flickr8k", *(pytest.param(name, marks=pytest.mark.slow) for name in ROOTS if name != "flickr8k")]
)
def test_a_recipe_trains(recipe, folder, tmp_path, capsys):
    settings = [*TINY, *(root.format(folder) for root in ROOTS[recipe])]
    words = [word for setting in settings for word in ("--set", setting)]
    assert main(["train", recipe, "--out", str(tmp_path / "run"), *words]) == 0
    capsys.readouterr()
    results = json.loads((tmp_path / "run" / "results" / "retrieval.json").read_text())
    assert "image_to_text_R@1" in json.dumps(results)
    further = {"coca": "captioning", "tcl": "two_stage"}.get(recipe.partition("-")[0])
    assert further is None or (tmp_path / "run" / "results" / f"{further}.json").exists()
    assert main(["eval", str(tmp_path / "run"), "--split", "validation"]) == 0


def test_a_recipe_without_its_data_says_so(capsys, tmp_path):
    assert main(["train", "flickr8k", "--out", str(tmp_path / "run"), "--set", "data.root=/nowhere"]) == 2
    said = capsys.readouterr().err
    assert 'equipoise: /nowhere/train-000.tar: there is no such file (from "train-{000..002}.tar")' in said
    assert said.count("\n") == 1
