"""A model folder whose small files are of another kind, too deep, or break the tokenizer: one sentence that names the
file."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import equipoise as eq
from equipoise.types import UserError


@pytest.fixture
def folder(finished_run: Path, tmp_path: Path) -> Path:
    for name in ("config.toml", "model.safetensors", "tokenizer.json", "preprocess.json", "metrics.json"):
        shutil.copy(finished_run / name, tmp_path / name)
    return tmp_path


@pytest.mark.parametrize(
    "content",
    ["[]", "3", "null", '"x"', "[" * 100_000, '{"size": NaN}', '{"mean": NaN}', '{"std": [1, 2]}', '{"size": {}}',
     '{"size": 1e400}', '{"mean": [1e30, 0, 0]}', '{"size": [32, 32, 32]}', "9" * 5000],
)  # fmt: skip
def test_preprocessing_of_another_kind(folder: Path, content: str) -> None:
    (folder / "preprocess.json").write_text(content)
    with pytest.raises(UserError, match=r"preprocess\.json: ") as error:
        eq.load(folder)
    assert "\n" not in str(error.value)


def test_a_missing_tokenizer_is_named(folder: Path) -> None:
    (folder / "tokenizer.json").unlink()
    with pytest.raises(UserError, match=r"tokenizer\.json is missing"):
        eq.load(folder)


def without_special_tokens(tokenizer: dict) -> None:
    tokenizer["post_processor"]["special_tokens"] = {}


def regex_bomb(tokenizer: dict) -> None:
    tokenizer["normalizer"] = {"type": "Replace", "pattern": {"Regex": "(a|aa)+$"}, "content": "x"}


def growth(tokenizer: dict) -> None:
    ten = {"type": "Replace", "pattern": {"String": "a"}, "content": "a" * 10}
    tokenizer["normalizer"] = {"type": "Sequence", "normalizers": [ten] * 9}


def bad_stride(tokenizer: dict) -> None:
    tokenizer["truncation"] |= {"max_length": 3, "stride": 7}


def endless_context(tokenizer: dict) -> None:
    tokenizer["truncation"]["max_length"] = 10**12


@pytest.mark.parametrize("damage", [without_special_tokens, regex_bomb, growth, bad_stride])
def test_a_tokenizer_that_breaks_down(folder: Path, capfd, damage: Callable[[dict], None]) -> None:
    """In Rust it panics, which is no Exception and prints a backtrace of its own."""
    path = folder / "tokenizer.json"
    tokenizer = json.loads(path.read_text())
    damage(tokenizer)
    path.write_text(json.dumps(tokenizer))
    with pytest.raises(UserError, match=r"tokenizer\.json: "):
        eq.load(folder)
    assert capfd.readouterr().err == ""


def test_a_context_beyond_reason(folder: Path) -> None:
    path = folder / "tokenizer.json"
    tokenizer = json.loads(path.read_text())
    endless_context(tokenizer)
    path.write_text(json.dumps(tokenizer))
    with pytest.raises(UserError, match=r"tokenizer\.json: .*1000000000000"):
        eq.load(folder)
