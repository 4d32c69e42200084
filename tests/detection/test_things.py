"""tools/things.py: a vector a picture of what a detector found, in the order of the features."""

from __future__ import annotations

import runpy
from collections.abc import Callable
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


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """What the tool prints, as `python tools/things.py` runs it; a new process would spend its time on imports."""

    def run(*arguments: Path | str) -> str:
        monkeypatch.setattr("sys.argv", [str(TOOL), *map(str, arguments)])
        runpy.run_path(str(TOOL), run_name="__main__")
        return capsys.readouterr().out

    return run


@pytest.mark.parametrize("keys", [["c", "a"], None])
def test_vectors_stand_beside_the_features_they_belong_to(regions, tmp_path, keys, ran):
    named = {} if keys is None else {"keys": np.array(keys)}
    count = len(keys or WANTED)
    np.savez(tmp_path / "a.npz", image=np.ones((count, 2)), text=np.ones((count, 2)), **named)
    told = ran(regions, tmp_path / "a.npz", "--out", tmp_path / "b.npz")
    assert f"2 of {count} pictures have things" in told
    source = FeatureFiles.Config(train=str(tmp_path / "b.npz"), guide="things").build("train")
    side = source.batch(range(count), [0.0] * count, None).side
    torch.testing.assert_close(
        side["image_vectors"], torch.tensor([WANTED[key] for key in keys or WANTED]), rtol=0, atol=1e-3
    )


def test_what_is_not_there_is_one_sentence(regions, tmp_path, ran):
    np.savez(tmp_path / "a.npz", image=np.ones((3, 2)))
    for given, sentence in (
        ((tmp_path / "none", tmp_path / "a.npz"), "there are no regions in it"),
        ((regions, tmp_path / "none.npz"), "No such file"),
    ):
        with pytest.raises(SystemExit, match=sentence):
            ran(*given, "--out", tmp_path / "b.npz")


def test_records_without_regions_are_named(regions, tmp_path, ran):
    np.savez(tmp_path / "a.npz", image=np.ones((2, 2)), text=np.ones((2, 2)))
    with pytest.raises(SystemExit, match="3 records, and there are features of 2"):
        ran(regions, tmp_path / "a.npz", "--out", "b.npz")
    np.savez(tmp_path / "a.npz", image=np.ones((2, 2)), text=np.ones((2, 2)), keys=np.array(["a", "q"]))
    with pytest.raises(SystemExit, match="has no regions of q and 0 others"):
        ran(regions, tmp_path / "a.npz", "--out", "b.npz")
