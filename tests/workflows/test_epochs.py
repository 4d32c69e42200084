"""`training.epochs`: who decides, what steps follow, and that every way to train goes by it."""

from __future__ import annotations

from pathlib import Path

import pytest
from captioned_pictures import write_captioned

from equipoise.cli import main
from equipoise.config import load_run, load_stored
from equipoise.finetuning.layers import finetuning_layers
from equipoise.types import Notice, UserError
from equipoise.workflows import train_run
from equipoise.workflows.finetune import _loaded

NANO = (
    "data.train_size=40", "data.validation_size=8", "data.test_size=8", "preprocess.size=16", "tokens.vocabulary=600",
    "tokens.context=12", "image.name=vit-micro", "image.width=16", "image.heads=2", "image.layers=1", "image.patch=8",
    "text.width=16", "text.heads=2", "text.layers=1", "space.dim=16", "training.batch_size=8", "training.device=cpu",
)  # fmt: skip
WORDS = [word for setting in NANO for word in ("--set", setting)]


def recipe(folder: Path, name: str, text: str) -> str:
    (folder / name).write_text(text)
    return str(folder / name)


def test_the_newest_layer_that_names_steps_or_epochs_decides(tmp_path: Path) -> None:
    recipe(tmp_path, "old.toml", 'extends = "demo"\n[training]\nsteps = 70\n')
    child = recipe(tmp_path, "child.toml", 'extends = "old"\n[training]\nepochs = 3\n')
    found = load_run(child).run.training
    assert found.epochs == 3
    over = load_run(child, ["training.steps=9"])
    assert (over.run.training.epochs, over.run.training.steps, over.table["training"]["epochs"]) == (0, 9, 0)
    assert load_run(child, ["training.epochs=0"]).run.training.steps == 70
    last = recipe(tmp_path, "last.toml", 'extends = "child"\n[training]\nsteps = 5\n')
    assert (load_run(last).run.training.epochs, load_run(last).run.training.steps) == (0, 5)


def test_both_at_once_are_refused_where_they_are_written(tmp_path: Path) -> None:
    both = recipe(tmp_path, "both.toml", 'extends = "demo"\n[training]\nsteps = 70\nepochs = 2\n')
    with pytest.raises(UserError, match=r"both\.toml:4.*training\.steps.*training\.epochs"):
        load_run(both)
    with pytest.raises(UserError, match=r"--set training\.epochs"):
        load_run("demo", ["training.epochs=2", "training.steps=3"])
    with pytest.raises(UserError, match=r"training\.epochs"):
        load_run("demo", ["training.epochs=-1"])


@pytest.mark.slow
def test_train_stores_the_steps_that_followed_and_goes_on_by_more_epochs(tmp_path: Path, capsys) -> None:
    """40 samples in batches of 8 are 5 steps an epoch; half an epoch more is 2.5, so 3."""
    out = tmp_path / "run"
    text = 'extends = "demo"\n[training]\nepochs = 1.5\nwarmup_steps = 4\n'
    assert main(["train", recipe(tmp_path, "mine.toml", text), *WORDS, "--out", str(out)]) == 0
    assert "8 steps" in capsys.readouterr().err
    stored = load_stored(out / "config.toml").run.training
    assert (stored.steps, stored.epochs, stored.warmup_steps) == (8, 0, 4)
    assert main(["train", "--resume", str(out), "--set", "training.epochs=2"]) == 0
    assert load_stored(out / "config.toml").run.training.steps == 10


def test_a_script_that_trains_goes_by_epochs_too(tmp_path: Path) -> None:
    _, outcome = train_run(load_run("demo", [*NANO, "training.epochs=0.6"]), tmp_path)
    assert outcome.step == 3


def test_fine_tuning_on_a_recipe_goes_by_epochs() -> None:
    table = load_run("demo", NANO).table
    layers = finetuning_layers("start", table, "demo", "ft", [*NANO, "training.epochs=2"])
    with pytest.warns(Notice, match="10 steps"):
        loaded = _loaded(layers, "ft", is_files=False)
    assert (loaded.run.training.steps, loaded.run.training.epochs) == (10, 0)


def test_a_recipe_that_is_written_has_steps_alone(tmp_path: Path) -> None:
    write_captioned(tmp_path)
    out = tmp_path / "mine.toml"
    assert main(["init", str(tmp_path / "pairs.csv"), "--set", "training.epochs=3", "--out", str(out)]) == 0
    text = out.read_text()
    assert "epochs" not in text.split("extends", 1)[1]
    training = load_run(out).run.training
    assert training.steps == 3 * (37 // training.batch_size)
