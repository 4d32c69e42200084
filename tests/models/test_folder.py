from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from equipoise.config import Loaded, dump, load_run
from equipoise.data.scenes import Scenes
from equipoise.data.tokenizer import CaptionTokenizer
from equipoise.models.folder import (
    fill_weights,
    model_folder,
    read_parts,
    read_tensors,
    save_model,
    state_dict_differences,
)
from equipoise.models.model import Model
from equipoise.types import UserError
from equipoise.workflows import build_model, load

FILES = [
    *("README.md", "config.toml", "digests.json", "metrics.json"),
    *("model.safetensors", "preprocess.json", "tokenizer.json"),
]


@pytest.fixture
def saved(model: Model, tiny: Loaded, tmp_path: Path) -> Path:
    save_model(model, tmp_path / "model", dump(tiny.table), {"step": 7, "mean_recall": 0.25})
    return tmp_path / "model"


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_model_comes_back_the_same(saved: Path, model: Model, scenes: Scenes) -> None:
    loaded = load(saved)
    assert not loaded.training
    texts, images = ["a red fish", "a star"], scenes.images(range(4), 48)
    assert torch.equal(loaded.encode_text(texts), model.encode_text(texts))
    assert torch.equal(loaded.encode_image(images), model.encode_image(images))
    assert loaded.log_scale.item() == model.log_scale.item()


def test_the_folder_is_one_anyone_can_read(saved: Path, model: Model, tiny: Loaded) -> None:
    assert sorted(path.name for path in saved.iterdir()) == FILES
    assert len({path.stat().st_mode for path in saved.iterdir()}) == 1
    assert load_run(saved / "config.toml") == tiny
    assert json.loads((saved / "metrics.json").read_text()) == {"step": 7, "mean_recall": 0.25}
    assert load_file(saved / "model.safetensors").keys() == model.state_dict().keys()
    assert "| mean_recall | 0.25 |" in (saved / "README.md").read_text()
    _, preprocess = read_parts(saved)
    assert (preprocess.size, preprocess.mean, preprocess.std) == (32, model.preprocess.mean, model.preprocess.std)


def test_other_weights_may_stand_in_for_the_models_own(model: Model, tiny: Loaded, tmp_path: Path) -> None:
    zeros = {name: torch.zeros_like(tensor) for name, tensor in model.state_dict().items()}
    save_model(model, tmp_path / "model", dump(tiny.table), {}, zeros)
    assert all(not tensor.any() for tensor in load(tmp_path / "model").state_dict().values())
    assert model.image_readout.projection.any()


@pytest.mark.parametrize("room", [500, 3_000, 40_000])  # full at config.toml, at tokenizer.json, at the weights
def test_a_disk_that_fills_up_leaves_the_old_model_whole(
    saved: Path, model: Model, tiny: Loaded, room: int, full_disk: Callable[[int], AbstractContextManager[None]]
) -> None:
    before = contents(saved)
    with full_disk(room), pytest.raises(UserError, match="File too large") as caught:
        save_model(model, saved, dump(tiny.table), {"step": 8})
    assert "\n" not in str(caught.value)
    assert contents(saved) == before
    assert [path.name for path in saved.parent.iterdir()] == ["model"]


def test_the_model_is_found_in_a_run_that_did_not_end(saved: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    for step in ("step-00000009", "step-00000010"):
        shutil.copytree(saved, run / "checkpoints" / step)
    assert model_folder(run) == run / "checkpoints" / "step-00000010"
    shutil.copytree(saved, run / "checkpoints" / "best")
    assert model_folder(run) == run / "checkpoints" / "best"
    shutil.copytree(saved, run, dirs_exist_ok=True)
    assert model_folder(run) == run


def test_a_folder_without_a_model_is_one_sentence(tmp_path: Path, saved: Path) -> None:
    for path, hint in ((tmp_path, ":"), (tmp_path / "nowhere", r" \(there is no such folder\):")):
        with pytest.raises(UserError, match=rf"no model in {path}{hint} a model folder holds model.safetensors"):
            load(path)
    for name in ("config.toml", "preprocess.json", "tokenizer.json"):
        kept = (saved / name).read_bytes()
        (saved / name).unlink()
        with pytest.raises(UserError, match=rf"{name}|tokenizer"):
            load(saved)
        (saved / name).write_bytes(kept)


@pytest.mark.parametrize("name", ["config.toml", "preprocess.json", "tokenizer.json", "model.safetensors"])
@pytest.mark.parametrize("damage", ["truncated", "scrambled", "replaced"])
def test_damaged_files_are_one_sentence_that_names_them(saved: Path, name: str, damage: str) -> None:
    file = saved / name
    data = file.read_bytes()
    at_line = len(data[: len(data) // 2].rpartition(b"\n")[0]) + 1  # what is left of a TOML file is one, too
    damaged = {
        "truncated": data[:at_line] if name == "config.toml" else data[: len(data) // 2],
        "scrambled": bytes(reversed(data)),
        "replaced": b"?",
    }
    file.write_bytes(damaged[damage])
    with pytest.raises(UserError, match=str(file)) as caught:
        load(saved)
    assert "\n" not in str(caught.value)


def test_a_checkpoint_of_another_shape_says_what_differs_and_loads_nothing(
    saved: Path, tokens: CaptionTokenizer, tiny_settings: tuple[str, ...]
) -> None:
    other = build_model(load_run("demo", [*tiny_settings, "space.dim=8", "image.layers=2"]).run, tokens)
    before = {name: tensor.clone() for name, tensor in other.state_dict().items()}
    with pytest.raises(UserError) as caught:
        fill_weights(other, read_tensors(saved / "model.safetensors"), saved / "model.safetensors")
    sentence = str(caught.value)
    beside = f"({saved / 'config.toml'} holds its settings)"
    assert sentence.startswith(f"{saved / 'model.safetensors'} {beside} does not fit this model: ")
    assert "image_readout.projection is 16×16, not 16×8" in sentence
    assert "text_readout.projection is 16×16, not 16×8" in sentence
    missing = [name for name in other.state_dict() if ".blocks.1." in name]
    assert len(missing) == 12
    assert [f"{name} is missing" in sentence for name in missing] == [True] * 4 + [False] * 8
    assert sentence.endswith("; and 8 more")
    assert all(torch.equal(tensor, before[name]) for name, tensor in other.state_dict().items())


def test_differences_are_named_by_kind() -> None:
    wanted = {"a": torch.zeros(2, 3), "b": torch.zeros(()), "c": torch.zeros(1)}
    found = {"a": torch.zeros(3, 2), "b": torch.zeros(1), "d": torch.zeros(1)}
    assert state_dict_differences(wanted, found) == [
        "a is 3×2, not 2×3",
        "b is 1, not a scalar",
        "c is missing",
        "d is not part of the model",
    ]
    assert state_dict_differences(wanted, dict(wanted)) == []
