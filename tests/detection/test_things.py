"""tools/things.py: a vector a picture of what a detector found, in the order of the features."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from equipoise.data.features import FeatureFiles
from equipoise.io.resumable import write_arrays

TOOL = Path(__file__).resolve().parents[2] / "tools" / "things.py"
SCORES = torch.tensor([[3.0, 4.0, 0.0], [0.0, 0.0, 2.0], [0.0, 1.0, 0.0]])  # the first two in one picture
BOXES = torch.tensor([[0.0, 0.0, 1.0, 1.0]]).expand(3, 4)
WANTED = {"a": [0.3, 0.4, 0.5], "b": [0.0, 0.0, 0.0], "c": [0.0, 1.0, 0.0]}


@pytest.fixture
def regions(tmp_path: Path) -> Path:
    folder = tmp_path / "regions"
    folder.mkdir()
    arrays = {"features": torch.cat([SCORES, BOXES], 1), "boxes": BOXES.clone(), "scores": torch.ones(3)}
    words = {"keys": ["a", "b", "c"], "tags": [["x", "y"], [], ["z"]]}
    write_arrays(folder / "00000.safetensors", {**arrays, "ends": torch.tensor([2, 2, 3])}, words)
    return folder


def ran(*arguments: Path | str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, TOOL, *map(str, arguments)], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("keys", [["c", "a"], None])
def test_vectors_stand_beside_the_features_they_belong_to(regions, tmp_path, keys):
    named = {} if keys is None else {"keys": np.array(keys)}
    count = len(keys or WANTED)
    np.savez(tmp_path / "a.npz", image=np.ones((count, 2)), text=np.ones((count, 2)), **named)
    told = ran(regions, tmp_path / "a.npz", "--out", tmp_path / "b.npz")
    assert told.returncode == 0, told.stderr
    assert f"2 of {count} pictures have things" in told.stdout
    source = FeatureFiles.Config(train=str(tmp_path / "b.npz"), guide="things").build("train")
    side = source.batch(range(count), [0.0] * count, None).side
    torch.testing.assert_close(
        side["image_vectors"], torch.tensor([WANTED[key] for key in keys or WANTED]), rtol=0, atol=1e-3
    )


def test_what_is_not_there_is_one_sentence(regions, tmp_path):
    np.savez(tmp_path / "a.npz", image=np.ones((3, 2)))
    for given, sentence in (
        ((tmp_path / "none", tmp_path / "a.npz"), "there are no regions in it"),
        ((regions, tmp_path / "none.npz"), "No such file"),
    ):
        told = ran(*given, "--out", tmp_path / "b.npz")
        assert told.returncode == 1
        assert sentence in told.stderr
        assert "Traceback" not in told.stderr


def test_records_without_regions_are_named(regions, tmp_path):
    np.savez(tmp_path / "a.npz", image=np.ones((2, 2)), text=np.ones((2, 2)))
    assert "3 records, and there are features of 2" in ran(regions, tmp_path / "a.npz", "--out", "b.npz").stderr
    np.savez(tmp_path / "a.npz", image=np.ones((2, 2)), text=np.ones((2, 2)), keys=np.array(["a", "q"]))
    assert "has no regions of q and 0 others" in ran(regions, tmp_path / "a.npz", "--out", "b.npz").stderr
