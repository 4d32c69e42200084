"""Files of other libraries that are damaged or hostile: `equipoise import` says so in one sentence."""

from __future__ import annotations

import json
import random
import zipfile
from pathlib import Path

import pytest
import torch
from small_clip import small_config, small_open_clip, small_tokens, write_open_clip

from equipoise.cli import main
from equipoise.interop.checkpoint import read_checkpoint
from equipoise.interop.torchscript import ModuleShell, _tensors
from equipoise.types import UserError

TAIL = 4096  # bytes, which hold the zip's directory


@pytest.fixture(scope="module")
def small():
    return small_tokens()


@pytest.fixture
def theirs(open_clip, small, tmp_path: Path) -> Path:
    config = small_config("vit", small)
    return write_open_clip(tmp_path / "theirs", small_open_clip(open_clip, config).state_dict(), config, small)


def refused(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    capsys.readouterr()
    code = main(["import", *map(str, words)])
    out, err = capsys.readouterr()
    assert (code, out) == (2, "")
    assert err.startswith("equipoise: ")
    assert err.count("\n") == 1
    return err


def test_one_bit_of_a_zip_directory(tmp_path: Path) -> None:
    """A damage is found, or does not matter; it never raises anything but UserError."""
    path = tmp_path / "a.pt"
    torch.save({f"layer.{n}.weight": torch.ones(2, n + 1) for n in range(8)}, path)
    sound, draw = path.read_bytes(), random.Random(0)
    found = 0
    for _ in range(300):
        damaged = bytearray(sound)
        damaged[-draw.randrange(1, min(TAIL, len(sound)))] ^= 1 << draw.randrange(8)
        path.write_bytes(damaged)
        try:
            read_checkpoint(path)
        except UserError:
            found += 1
    assert found > 50


def test_a_directory_that_is_no_text(tmp_path: Path) -> None:
    path = tmp_path / "a.pt"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a/constants.pkl-ü", b"")
    path.write_bytes(path.read_bytes().replace("ü".encode(), b"\xff\xff"))
    with pytest.raises(UserError, match="damaged, or no checkpoint"):
        read_checkpoint(path)


def test_keys_that_are_numbers(tmp_path: Path) -> None:
    torch.save({0: torch.ones(2), 1: torch.ones(2)}, tmp_path / "a.pt")
    with pytest.raises(UserError, match="holds no table of tensors"):
        read_checkpoint(tmp_path / "a.pt")


def test_a_module_that_contains_itself() -> None:
    shell = ModuleShell()
    shell.__setstate__({"weight": torch.ones(1), "inner": shell})
    with pytest.raises(UserError, match="inner lies in itself"):
        list(_tensors(shell, "", set()))


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        (("model_cfg", "embed_dim"), 10**30, "embed_dim"),
        (("model_cfg", "vision_cfg", "layers"), 10**30, "layers"),
        (("model_cfg", "vision_cfg", "layers"), 1_000_000, "layers"),
        (("model_cfg", "vision_cfg", "width"), 10**30, "width"),
        (("model_cfg", "vision_cfg", "mlp_ratio"), 10**400, "mlp_ratio"),
        (("model_cfg", "vision_cfg", "mlp_ratio"), float("nan"), "mlp_ratio"),
        (("model_cfg", "text_cfg", "layers"), 1_000_000, "layers"),
        (("model_cfg", "text_cfg", "context_length"), 10**30, "context_length"),
        (("model_cfg", "text_cfg", "eos_id"), 10**30, "eos_id"),
        (("model_cfg", "init_logit_bias"), "x", "bias"),
        (("model_cfg", "init_logit_bias"), [1], "bias"),
        (("preprocess_cfg",), {"mean": float("nan")}, "mean"),
        (("preprocess_cfg",), {"mean": [float("nan"), 0, 0]}, "mean"),
        (("preprocess_cfg",), {"std": [1, 1]}, "std"),
        (("preprocess_cfg",), {"size": {"a": 1}}, "size"),
        (("preprocess_cfg",), [1], "preprocess_cfg"),
        (("model_cfg",), 3, "model_cfg"),
    ],
)
def test_settings_beyond_reason(theirs: Path, capsys, tmp_path: Path, key: tuple[str, ...], value, said: str) -> None:
    path = theirs / "open_clip_config.json"
    config = json.loads(path.read_text())
    config.setdefault("preprocess_cfg", {})
    table = config
    for name in key[:-1]:
        table = table[name]
    table[key[-1]] = value
    path.write_text(json.dumps(config))
    assert said in refused(capsys, theirs, "--out", tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["open_clip_config.json", "tokenizer.json"])
@pytest.mark.parametrize("content", ["[" * 100_000, "[]", "3", "null", '"x"', "", "9" * 5000])
def test_json_of_another_kind(theirs: Path, capsys, tmp_path: Path, name: str, content: str) -> None:
    (theirs / name).write_text(content)
    assert name in refused(capsys, theirs, "--out", tmp_path / "out")
