"""A model folder whose files are not those that were saved is told by the file's name before it is used."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

import equipoise as eq
from equipoise.cli import main
from equipoise.config import Loaded, dump
from equipoise.io.digests import DIGESTS, renew_digest
from equipoise.models.folder import save_model
from equipoise.models.model import Model
from equipoise.types import UserError

PARTS = ("config.toml", "tokenizer.json", "preprocess.json", "model.safetensors")
WEIGHTS = "model.safetensors"


@pytest.fixture
def saved(model: Model, tiny: Loaded, tmp_path: Path) -> Path:
    save_model(model, tmp_path / "model", dump(tiny.table), {"step": 7})
    return tmp_path / "model"


def changed_weights(folder: Path, change: Callable[[dict[str, Tensor]], None]) -> None:
    """Weights that someone wrote on purpose, digest and all."""
    state = load_file(folder / WEIGHTS)
    change(state)
    save_file(state, folder / WEIGHTS)
    renew_digest(folder, WEIGHTS)


def refusal(folder: Path) -> str:
    with pytest.raises(UserError) as caught:
        eq.load(folder)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_the_digests_are_of_every_part_and_of_the_step(saved: Path, model: Model, tiny: Loaded, tmp_path: Path) -> None:
    stored = json.loads((saved / DIGESTS).read_text())
    assert sorted(stored["sha256"]) == sorted(PARTS)
    assert stored["step"] == 7
    save_model(model, tmp_path / "again", dump(tiny.table), {"step": 7})
    assert (tmp_path / "again" / DIGESTS).read_bytes() == (saved / DIGESTS).read_bytes()


@pytest.mark.parametrize("name", PARTS)
def test_one_flipped_bit_is_told(saved: Path, name: str) -> None:
    data = bytearray((saved / name).read_bytes())
    data[-3 * len(data) // 8] ^= 1
    (saved / name).write_bytes(data)
    sentence = refusal(saved)
    assert str(saved / name) in sentence
    assert DIGESTS in sentence
    assert "--no-verify" in sentence


def test_the_tokenizer_of_another_model_is_told(saved: Path) -> None:
    path = saved / "tokenizer.json"
    tokenizer = json.loads(path.read_text())
    pieces = tokenizer["model"]["vocab"]
    plain = [piece for piece in pieces if not piece.startswith("<|")]
    ids = [pieces[piece] for piece in plain]
    pieces |= dict(zip(plain, ids[1:] + ids[:1], strict=True))  # as many pieces, other numbers
    path.write_text(json.dumps(tokenizer))
    eq.load(saved, verify=False)
    assert str(path) in refusal(saved)


def test_parts_of_two_models_are_told(saved: Path, model: Model, tiny: Loaded, tmp_path: Path) -> None:
    other = {name: tensor + 1 if tensor.is_floating_point() else tensor for name, tensor in model.state_dict().items()}
    save_model(model, tmp_path / "other", dump(tiny.table), {"step": 8}, other)
    shutil.copy(tmp_path / "other" / WEIGHTS, saved / WEIGHTS)
    assert str(saved / WEIGHTS) in refusal(saved)


@pytest.mark.parametrize("dtype", [torch.bool, torch.int64, torch.complex64, torch.float16, torch.float64])
def test_weights_of_another_type_are_not_converted(saved: Path, dtype: torch.dtype) -> None:
    changed_weights(saved, lambda state: state.update({name: t.to(dtype) for name, t in state.items()}))
    sentence = refusal(saved)
    assert str(saved / WEIGHTS) in sentence
    assert f"is {str(dtype).removeprefix('torch.')}, not float32" in sentence


@pytest.mark.parametrize(
    ("key", "place", "value"),
    [
        ("logit_scale", (), math.nan),
        ("image_readout.projection", (3,), math.nan),
        ("text_encoder.words.weight", (5, 2), math.inf),
    ],
)
def test_weights_that_are_not_finite_are_told(saved: Path, key: str, place: tuple[int, ...], value: float) -> None:
    changed_weights(saved, lambda state: state[key].__setitem__(place, value))
    sentence = refusal(saved)
    assert str(saved / WEIGHTS) in sentence
    assert key in sentence
    assert "not finite" in sentence


def test_an_edit_on_purpose_is_accepted_by_a_word(
    saved: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with (saved / "config.toml").open("a") as file:
        file.write("# mine\n")
    words = ["eval", str(saved), "--out", str(tmp_path / "out"), "--device", "cpu"]
    assert main(words) == 2
    assert "config.toml" in capsys.readouterr().err
    assert main([*words, "--no-verify"]) == 0
    eq.load(saved, verify=False)
    (saved / DIGESTS).unlink()  # for good
    with pytest.warns(UserWarning, match=DIGESTS):
        eq.load(saved)


def test_the_card_and_the_metrics_may_be_edited(saved: Path) -> None:
    (saved / "README.md").write_text("my words")
    (saved / "metrics.json").write_text("{}")
    eq.load(saved)
