"""A run with several class tokens, from recipe to linear probe: m is said once, in the space."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

import equipoise as eq
from equipoise.cli import main
from equipoise.config import load_run
from equipoise.types import UserError
from equipoise.workflows import resume_folder, run_recipe

RECIPE = "scenes-multi-64x8"
SPACE = ("space.n=4", "space.m=3")


@pytest.fixture(scope="module")
def small(tiny_settings: tuple[str, ...]) -> list[str]:
    return [*(one for one in tiny_settings if not one.startswith("space.")), *SPACE]


@pytest.fixture(scope="module")
def run(small: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("multi") / "run"
    assert run_recipe(RECIPE, [*small, "tokens.context=10"], out, "equipoise train") == 0
    return out


def test_the_context_holds_class_tokens_and_words_together(run):
    model = eq.load(run)
    assert model.image_encoder.class_token.shape == (3, 16)
    assert model.image_encoder.positions.shape == (3 + 16, 16)
    assert model.text_encoder.positions.shape == (10, 16)
    assert model.tokenizer.context == 8
    assert model.image_readout.projection.shape == (16, 4)
    words = "a red fish above a blue star beside a green tree"
    with pytest.warns(UserWarning, match="the context is 8; its end is cut off"):
        points = model.encode_text(words)
    assert model.tokenizer.truncated == 1
    torch.testing.assert_close(points.view(3, 4).norm(dim=-1), torch.ones(3))
    with pytest.raises(UserError, match=r"11 tokens.*context of 10"):
        model.text_encoder(torch.ones(1, 9, dtype=torch.long), torch.ones(1, 9, dtype=torch.bool))


@pytest.mark.slow
def test_a_run_is_gone_on_with(run):
    """The tokenizer of a checkpoint has its smaller room already."""
    assert resume_folder(run, ["training.steps=3"], "equipoise train") == 0
    assert eq.load(run).text_encoder.positions.shape == (10, 16)


def test_the_laboratory_and_the_probe_read_all_tokens(run, small, tmp_path, capsys):
    assert main(["lab", "tokens", str(run), "--draws", "2", "--out", str(tmp_path)]) == 0
    record = json.loads((tmp_path / "tokens.json").read_text())
    assert [(one["tokens"], len(one["accuracies"])) for one in record["subsets"]] == [(1, 2), (2, 2), (3, 1)]
    settings = [word for one in small for word in ("--set", one)]
    assert main(["probe", str(run), RECIPE, *settings, "--sgd", "--out", str(tmp_path)]) == 0
    assert "48 features (class tokens); " in capsys.readouterr().out


def test_class_tokens_before_the_projection_can_be_trained_on(run, small, tmp_path):
    settings = [word for one in small for word in ("--set", one)]
    command = ["embed", str(run), RECIPE, *settings, "--split", "test", "--before-projection", "--out", str(tmp_path)]
    assert main(command) == 0
    written = load_file(tmp_path / "00000.safetensors")
    assert written["image"].shape == (16, 3, 16)
    assert written["text"].shape[1:] == (3, 16)
    widths = ["image.width=16", "text.width=16", "image.classes=3", "text.classes=3"]
    files = [f"data.{split}={tmp_path}" for split in ("train", "validation", "test")]
    choices = ["space.name=product_sphere", *SPACE, "readout.name=class_tokens", "training.steps=2"]
    assert run_recipe("features", [*widths, *files, *choices, "training.batch_size=8"], tmp_path / "heads", "x") == 0
    heads = eq.load(tmp_path / "heads")
    assert heads.encode_image(written["image"]).shape == (16, 12)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (["space.m=60"], "tokens.context is 64, but 60 class tokens leave 5 of it to captions; set it to 65 or more"),
        (["space.name=sphere", "space.dim=64"], "Sphere is no product of spheres; set space.name to product_sphere"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_made(settings, sentence):
    with pytest.raises(UserError, match=sentence):
        load_run("topology-multi-64x8" if "space.name=sphere" in settings else RECIPE, settings)


def test_a_causal_tower_is_refused_in_one_sentence(small, tmp_path, capsys):
    settings = [word for one in [*small, "text.causal=true"] for word in ("--set", one)]
    assert main(["train", RECIPE, *settings, "--out", str(tmp_path / "run")]) == 2
    assert "a causal text tower is read at its end alone, but 3 class tokens are wanted" in capsys.readouterr().err
