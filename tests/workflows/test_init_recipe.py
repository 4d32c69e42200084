"""A recipe that is written for files trains as it stands, and says what the files are."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from captioned_pictures import write_captioned
from class_pictures import write_class_folders

from equipoise.cli import main
from equipoise.config import load_run
from equipoise.workflows.init_recipe import choose_size

FEW = ["--set", "training.steps=2", "--set", "image.layers=1", "--set", "text.layers=1", "--set", "seed=5"]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = write_captioned(tmp_path_factory.mktemp("captioned"))
    write_class_folders(folder / "classes")
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("name", ["pairs.csv", "coco.json", "classes"])
def test_the_recipe_trains_as_written(name: str, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    recipe = tmp_path / "mine.toml"
    assert main(["init", str(data / name), "--out", str(recipe), *FEW]) == 0
    assert str(recipe) in capsys.readouterr().out
    run = load_run(recipe).run
    assert (run.training.steps, run.seed, run.preprocess.size, run.image.layers) == (2, 5, 32, 1)
    assert run.training.best == ("acc1" if name == "classes" else "mean_recall")
    assert main(["train", str(recipe), "--out", str(tmp_path / "run")]) == 0
    assert main(["eval", str(tmp_path / "run"), str(recipe)]) == 0


def test_nothing_is_overwritten_and_mistakes_write_nothing(data: Path, tmp_path: Path, capsys, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pairs.toml").write_text("mine")
    for words, fault in (
        ((str(data / "pairs.csv"),), "pairs.toml is there already"),
        ((str(data / "images"), "--out", "new.toml"), "these pictures have no captions"),
        (("demo", "--out", "new.toml"), "give the files"),
        ((str(data / "pairs.csv"), "--out", "new.toml", "--set", "training.stepz=3"), "unknown key"),
    ):
        assert main(["init", *words]) == 2
        assert fault in capsys.readouterr().err.splitlines()[-1]
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("pairs.toml", "mine")]


def test_sizes_grow_with_the_data_and_the_machine() -> None:
    cpu, gpu = torch.device("cpu"), torch.device("cuda")
    assert choose_size(10**7, cpu, 500).image == "vit-micro"
    assert [choose_size(count, gpu, 500).image for count in (10, 10**5, 10**6)] == ["vit-mini", "vit-s16", "vit-b32"]
    assert [choose_size(10, cpu, side).pixels for side in (32, 64, 500)] == [32, 64, 64]
