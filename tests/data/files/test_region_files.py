"""A folder of regions whose arrays are not what `equipoise regions` writes is one sentence when it is opened."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from equipoise.data.files.regions import RegionFiles
from equipoise.types import UserError


def write(folder: Path, words: dict[str, Any] | None = None, **changed: Tensor) -> Path:
    """Two records, with two regions and one, of 3 + 4 numbers each, but for what was changed."""
    tensors = {
        "features": torch.arange(21.0).view(3, 7),
        "boxes": torch.rand(3, 4),
        "scores": torch.rand(3),
        "ends": torch.tensor([2, 3]),
    }
    save_file({**tensors, **changed}, folder / "00000.safetensors")
    beside = {"keys": ["a", "b"], "tags": [["red"], []], **(words or {})}
    (folder / "00000.json").write_text(json.dumps(beside))
    return folder


def nan(tensor: Tensor) -> Tensor:
    tensor.view(-1)[4 if tensor.numel() > 4 else 0] = math.nan
    return tensor


def test_a_sound_folder_is_read(tmp_path: Path) -> None:
    found = RegionFiles(write(tmp_path))
    assert (found.most, found.width) == (2, 7)
    assert [len(found.of(key)[0]) for key in "abc"] == [2, 1, 0]
    assert found.tags("a") == ("red",)


@pytest.mark.parametrize(
    ("words", "changed"),
    [
        ({"keys": [1, 2]}, {}),
        ({"keys": [["a"], ["b"]]}, {}),
        ({"keys": [None, "b"]}, {}),
        ({"tags": [1, 2]}, {}),
        ({"tags": ["red", "blue"]}, {}),
        ({"tags": [[1], ["blue"]]}, {}),
        ({"tags": [None, []]}, {}),
        ({"keys": ["a"]}, {}),
        ({}, {"ends": torch.tensor(3)}),
        ({}, {"ends": torch.tensor([[2, 3]])}),
        ({}, {"ends": torch.tensor([2.0, 3.0])}),
        ({}, {"ends": torch.tensor([3, 2])}),
        ({}, {"features": torch.zeros(3)}),
        ({}, {"features": torch.zeros(3, 7, dtype=torch.complex64)}),
        ({}, {"features": nan(torch.zeros(3, 7))}),
        ({}, {"features": nan(torch.zeros(3, 7, dtype=torch.float16))}),
        ({}, {"features": torch.full((3, 7), math.inf)}),
        ({}, {"boxes": nan(torch.zeros(3, 4))}),
        ({}, {"scores": nan(torch.zeros(3))}),
        ({}, {"scores": torch.zeros(())}),
    ],
)
def test_another_folder_is_one_sentence_that_names_the_file(tmp_path: Path, words: Any, changed: Any) -> None:
    with pytest.raises(UserError, match=str(tmp_path / "00000")) as caught:
        RegionFiles(write(tmp_path, words, **changed))
    assert "\n" not in str(caught.value)
