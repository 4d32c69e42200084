"""Models that are too large are refused by their shapes, before they cost memory."""

from __future__ import annotations

import json
import shutil
from copy import deepcopy
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from equipoise.config import Loaded, load_run
from equipoise.data.tokenizer import CaptionTokenizer
from equipoise.models.model import Model
from equipoise.models.shapes import machine_memory, on_meta, read_shapes, require_room
from equipoise.types import UserError
from equipoise.workflows import build_model, load, run_recipe

OWN_PARTS = (
    "demo",
    "fdt-swin-scenes",
    "softclip-resnet-scenes",
    "declip-fdt-scenes",
    "slip-scenes",
    "maple-scenes",
    "filip-scenes",
    "scenes-multi-64x8",
)


@pytest.fixture
def folder(finished_run: Path, tmp_path: Path) -> Path:
    """A model folder to spoil, without digests that would tell first."""
    copy = tmp_path / "model"
    shutil.copytree(finished_run, copy, ignore=shutil.ignore_patterns("digests.json", "checkpoints"))
    return copy


def with_token(folder: Path, number: int) -> Path:
    """The folder, its tokenizer with one more word of this id."""
    path = folder / "tokenizer.json"
    table = json.loads(path.read_text())
    table["model"]["vocab"]["<far>"] = number
    path.write_text(json.dumps(table))
    return folder


def with_setting(folder: Path, table: str, line: str) -> Path:
    path = folder / "config.toml"
    key = line.partition(" ")[0]
    before, _, after = path.read_text().partition(f"[{table}]\n")
    lines = [line if old.partition(" ")[0] == key else old for old in after.split("\n\n")[0].splitlines()]
    path.write_text(f"{before}[{table}]\n" + "\n".join(lines) + "\n\n" + after.partition("\n\n")[2])
    return folder


def refusal(folder: Path) -> str:
    with pytest.raises(UserError) as error:
        load(folder)
    return str(error.value)


def test_an_id_of_a_billion_names_the_tokenizer(folder: Path) -> None:
    sentence = refusal(with_token(folder, 10**9))
    assert str(folder) in sentence
    assert "1000000000" in sentence


def test_a_vocabulary_of_millions_is_held_against_the_file(folder: Path) -> None:
    """Sixteen million rows of 65,536 numbers: four TiB, if they were made."""
    with_token(folder, 2**24 - 1)
    sentence = refusal(with_setting(folder, "text", "width = 65536"))
    assert "model.safetensors" in sentence
    assert "16777216×65536" in sentence


def test_a_large_width_is_held_against_the_file(folder: Path) -> None:
    sentence = refusal(with_setting(folder, "image", "width = 65536"))
    assert "image_encoder" in sentence
    assert "65536" in sentence


@pytest.mark.parametrize("line", ["layers = 1000001", "width = 100000000"])
def test_sizes_out_of_bounds_are_refused_by_their_key(folder: Path, line: str) -> None:
    sentence = refusal(with_setting(folder, "image", line))
    assert "config.toml" in sentence
    assert f"image.{line.partition(' ')[0]}" in sentence


@pytest.mark.parametrize("key", ["image.layers=1000000000", "text.layers=1001", "tokens.vocabulary=1000000000"])
def test_recipes_are_bounded(key: str) -> None:
    with pytest.raises(UserError, match=key.partition("=")[0]):
        load_run("demo", [key])


def test_a_model_that_the_machine_cannot_hold_is_not_begun(tmp_path: Path, tiny_settings: tuple[str, ...]) -> None:
    """Every tensor alone would fit: the system would give out all memory before it refused one."""
    layers = int(machine_memory() / (12 * 4 * 4096**2)) + 1
    large = ("image.width=4096", f"image.layers={min(layers, 1000)}", "image.heads=16", "image.mlp_ratio=4")
    if layers > 1000:
        pytest.skip("this machine can hold a thousand layers of that width")
    with pytest.raises(UserError, match="GiB, and this machine has"):
        run_recipe("demo", (*tiny_settings, *large), tmp_path / "run", "")


def test_a_file_gives_its_shapes_without_its_numbers(model: Model, tmp_path: Path) -> None:
    save_file(model.state_dict(), tmp_path / "weights.safetensors")
    shapes = read_shapes(tmp_path / "weights.safetensors")
    assert {name: tensor.shape for name, tensor in shapes.items()} == {
        n: t.shape for n, t in model.state_dict().items()
    }
    assert all(tensor.is_meta for tensor in shapes.values())


@pytest.mark.parametrize("recipe", OWN_PARTS)
def test_all_own_parts_have_shapes_without_numbers(recipe: str, tokens: CaptionTokenizer) -> None:
    """And leave the random numbers of what is built afterwards alone."""
    run, before = load_run(recipe).run, torch.get_rng_state()
    own = deepcopy(tokens)
    model = on_meta(lambda: build_model(run, own.with_mask() if run.caption_tokens().mask else own))
    assert model is not None
    assert all(tensor.is_meta for tensor in (*model.parameters(), *model.buffers()))
    assert torch.equal(torch.get_rng_state(), before)


def test_a_part_that_must_see_numbers_is_left_alone(tiny: Loaded, tokens: CaptionTokenizer) -> None:
    def build() -> torch.nn.Module:
        assert torch.linspace(0, 1, 3)[1].item() == 0.5
        return build_model(tiny.run, tokens)

    assert on_meta(build) is None
    require_room(build)
