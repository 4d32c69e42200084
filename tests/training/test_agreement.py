"""Ranks that disagree: what is compared, and that real ones are refused before they train."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file
from small_run import write_recipe

from equipoise.config import Loaded, load_run, load_settings
from equipoise.data.digest import source_digest, spread
from equipoise.data.files import file_source
from equipoise.io.digests import renew_digest
from equipoise.models.model import Model
from equipoise.training.distributed.agreement import (
    Facts,
    data_facts,
    environment_facts,
    model_facts,
    require_agreement,
    require_equal,
)
from equipoise.training.distributed.ranks import Ranks
from equipoise.types import UserError

ROOT = Path(__file__).parents[2]


def refusal(first: Facts, *others: Facts) -> str:
    with pytest.raises(UserError) as error:
        require_equal([first, *others])
    return str(error.value)


def test_a_difference_is_told_by_key_and_values(tiny: Loaded, tiny_settings):
    other = load_run("demo", (*tiny_settings, "training.steps=3", "text.name=bert-nano"))
    sentence = refusal(tiny.table, tiny.table, other.table)
    assert "training.steps is 2 on rank 0 and 3 on rank 2" in sentence
    assert 'text.name is "causal-nano" on rank 0 and "bert-nano" on rank 2' in sentence
    assert "\n" not in sentence


def test_equal_facts_pass_and_one_process_gathers_none(tiny: Loaded):
    require_equal([tiny.table, load_settings(tiny.table, "a copy").table])
    require_agreement(Ranks(), lambda: pytest.fail("one process has nobody to agree with"))


def test_data_differ_by_number_and_by_captions(tiny_settings):
    def facts(*changes: str) -> dict[str, object]:
        return data_facts("training", load_run("demo", (*tiny_settings, *changes)).run.training_pairs())

    assert facts() == facts()
    assert "the number of training records is 64 on rank 0 and 56" in refusal(facts(), facts("data.train_size=56"))
    shuffled = refusal(facts(), facts("shuffle.share=0.5"))
    assert "the digest of training keys and captions" in shuffled
    assert "the number" not in shuffled


def test_keys_of_files_are_compared_all(tmp_path, monkeypatch):
    """A table of more rows than are read: one other key between those changes the digest."""
    monkeypatch.setattr(file_source, "GLANCE", 0)  # there are no pictures
    rows = [f"{number}.jpg,a picture" for number in range(2000)]

    def digest(lines: list[str]) -> str:
        (tmp_path / "pairs.csv").write_text("\n".join(["filepath,title", *lines]) + "\n")
        recipe = tmp_path / "table.toml"
        recipe.write_text('[data]\nname = "table"\ntrain = "pairs.csv"\nvalidation = "pairs.csv"\n')
        return source_digest(load_run(recipe, [f"data.root={tmp_path}"]).run.training_pairs())

    assert 3 not in spread(2000, 256)
    assert digest(rows) == digest(rows) != digest([*rows[:3], "other.jpg,a picture", *rows[4:]])


def test_what_is_read_is_bounded():
    assert spread(3, 256) == [0, 1, 2]
    places = spread(10**9, 256)
    assert len(set(places)) == 256
    assert places[0] == 0
    assert places[-1] < 10**9


def test_one_other_number_is_another_model(model: Model):
    before = model_facts(model)
    assert before == model_facts(model)
    with torch.no_grad():
        next(model.text_encoder.parameters()).view(-1)[0] += 1
    assert "the digest of the weights" in refusal(before, model_facts(model))


def test_variables_and_switches_are_facts(monkeypatch):
    before = environment_facts()
    monkeypatch.setenv("EQUIPOISE_WAY", "left")
    monkeypatch.setenv("OMP_NUM_THREADS", "17")  # a matter of speed
    sentence = refusal(before, environment_facts())
    assert 'the environment variable EQUIPOISE_WAY is absent on rank 0 and "left" on rank 1' in sentence
    assert "OMP" not in sentence
    assert "the version of torch" in before


def two(
    script: str, *arguments: str | Path, folder: str = ".", setting: str = "SHELL=bash"
) -> subprocess.CompletedProcess[str]:
    """A command line of ours on two ranks, by a shell that knows $RANK and the arguments as $1, $2, ..."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "--no-python"]
    return subprocess.run(
        [
            *command,
            "bash",
            "-c",
            f'cd "{folder}" && export {setting} && exec "$0" -m equipoise.cli {script}',
            sys.executable,
            *map(str, arguments),
        ],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)},
    )


def only_sentence(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode != 0
    own = [line for line in done.stderr.splitlines() if line.startswith("equipoise: ") and "warning" not in line]
    assert len(own) == 1, done.stderr[-3000:]
    assert "equipoise/workflows" not in done.stderr  # torchrun has a traceback of its own
    return own[0]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("difference", "told"),
    [
        ("--set training.learning_rate=0.00$((RANK+1))", "training.learning_rate is 0.001 on rank 0 and 0.002"),
        ("--set training.steps=$((4+RANK*2))", "training.steps is 4 on rank 0 and 6 on rank 1"),
        ("$([ $RANK = 1 ] && echo --resume)", "--resume is false on rank 0 and true on rank 1"),
    ],
)
def test_ranks_with_other_settings_do_not_train(tmp_path, difference, told):
    done = two(f'train "$1" --out "$2" {difference}', write_recipe(tmp_path), tmp_path / "run")
    assert told in only_sentence(done)
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_ranks_with_other_data_do_not_train(tmp_path):
    """The same recipe over tables that are not the same on both machines."""
    (tmp_path / "recipe.toml").write_text(
        'extends = "demo"\n[data]\nname = "table"\ntrain = "pairs.csv"\nvalidation = "pairs.csv"\n'
    )
    Image.new("RGB", (8, 8)).save(tmp_path / "one.jpg")
    picture = (tmp_path / "one.jpg").read_bytes()
    for rank, count in ((0, 300), (1, 299)):
        (tmp_path / str(rank)).mkdir()
        for number in range(count):
            (tmp_path / str(rank) / f"{number}.jpg").write_bytes(picture)
        lines = "".join(f"{number}.jpg,a picture\n" for number in range(count))
        (tmp_path / str(rank) / "pairs.csv").write_text(f"filepath,title\n{lines}")
    done = two('train "$1/recipe.toml" --out "$1/run"', tmp_path, folder="$1/$RANK")
    assert "the number of training records is 300 on rank 0 and 299 on rank 1" in only_sentence(done)


@pytest.mark.slow
def test_ranks_with_other_models_do_not_evaluate(finished_run, tmp_path):
    """A folder of the same name with the same settings, but trained on: the weights tell."""
    for rank in "01":
        shutil.copytree(finished_run, tmp_path / rank / "model")
    weights = tmp_path / "1" / "model" / "model.safetensors"
    save_file({name: tensor * 1.01 for name, tensor in load_file(weights).items()}, weights)
    renew_digest(weights.parent, weights.name)
    assert "the digest of the weights of model 1 is" in only_sentence(two("eval model", tmp_path, folder="$1/$RANK"))
    alike = two('eval "$1"', finished_run)
    assert alike.returncode == 0, alike.stderr[-3000:]


@pytest.mark.slow
def test_ranks_in_other_environments_do_not_start(tmp_path):
    command = 'train "$1" --out "$2"'
    done = two(command, write_recipe(tmp_path), tmp_path / "run", setting="EQUIPOISE_WAY=$RANK")
    assert 'EQUIPOISE_WAY is "0" on rank 0 and "1" on rank 1' in only_sentence(done)
