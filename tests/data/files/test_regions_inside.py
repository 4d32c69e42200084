"""Regions as arrays beside the pictures of a shard."""

from __future__ import annotations

import io
import json
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from equipoise.data.files import Shards
from equipoise.data.files.mixture import Mixture
from equipoise.data.shard_writer import write_shard
from equipoise.types import UserError


def picture() -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (8, 8)).save(buffer, "PNG")
    return buffer.getvalue()


def array(regions: int, width: int = 7, dtype: str = "float32") -> np.ndarray:
    return np.linspace(0, 1, regions * width).reshape(regions, width).astype(dtype)


def npy(value: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, value, allow_pickle=True)
    return buffer.getvalue()


def npz(**values: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **values)
    return buffer.getvalue()


def shard(path: Path, regions: list[dict[str, bytes]]) -> str:
    side = json.dumps({"tags": ["red disc", "table"]}).encode()
    samples = [
        {"__key__": f"{path.stem}{number}", "png": picture(), "txt": b"a disc", "json": side, **files}
        for number, files in enumerate(regions)
    ]
    write_shard(path, samples)
    return str(path)


def settings(path: str, **changed: object) -> Shards:
    return Shards(train=path, validation=path, regions="inside", **changed)


def test_arrays_are_read_with_the_tags_of_the_json(tmp_path):
    path = shard(
        tmp_path / "a.tar",
        [{"regions.npy": npy(array(2))}, {}, {"regions.npz": npz(features=array(3, dtype="float16"))}],
    )
    with pytest.warns(UserWarning, match="1 of 3 records have no regions in the shards"):
        source = settings(path).build("train")
    assert (source.region_folder.most, source.region_folder.width, len(source)) == (3, 7, 3)
    features, mask = source.regions([2, 0, 1])
    assert mask.tolist() == [[True] * 3, [True, True, False], [False] * 3]
    torch.testing.assert_close(features[1, :2], torch.from_numpy(array(2)))
    assert not features[2].any()
    assert source.tags(0) == ("red disc", "table")


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ({"regions.npy": b"nothing"}, r"\.regions\.npy is no array of numbers"),
        ({"regions.npy": npy(np.array([{}]))}, "is no array of numbers"),  # a pickle
        ({"regions.npy": npy(array(2))[:-3]}, "is no array of numbers"),
        ({"regions.npz": npz(other=array(2))}, r"is no array of numbers .*features"),
        ({"regions.npz": npz(features=array(2))[:-9]}, "is no array of numbers"),
        ({"regions.npy": npy(array(2)[0])}, r"float32 of shape \[7\], not floats \[R, w\]"),
        ({"regions.npy": npy(array(2, 4))}, "with w above 4"),
        ({"regions.npy": npy(array(2).astype("int64"))}, r"int64 of shape \[2, 7\]"),
        ({"regions.npy": npy(array(2) * np.nan)}, "not finite"),
        ({"regions.npy": npy(array(2) * 640)}, "the last 4 numbers of a region are its box"),
        ({"regions.npy": npy(array(2, 9))}, "regions of 9 numbers, not 7 as those before"),
        ({"regions.npy": npy(array(2)), "regions.npz": npz(features=array(2))}, "both a .npy and a .npz"),
    ],
)
def test_regions_that_cannot_be_used_make_a_bad_record(tmp_path, files, reason):
    path = shard(tmp_path / "a.tar", [{"regions.npy": npy(array(2))}, files])
    with pytest.warns(UserWarning, match=rf"record a1: its regions cannot be used: .*{reason}"):
        source = settings(path).build("train")
    assert [source.pair(index).key for index in range(len(source))] == ["a0"]
    with pytest.raises(UserError, match="its regions cannot be used"):
        settings(path, max_bad=0.0).build("train")


def test_shards_without_regions_and_keys_that_come_twice(tmp_path):
    with pytest.raises(UserError, match=r"no record has a \.regions\.npy beside its picture"):
        settings(shard(tmp_path / "a.tar", [{}, {}])).build("train")
    (tmp_path / "again").mkdir()
    first, second = (shard(tmp_path / f"{folder}a.tar", [{"regions.npy": npy(array(1))}]) for folder in ("", "again/"))
    with pytest.raises(UserError, match="has the key of another record, by which regions are found"):
        settings([first, second]).build("train")


def mixture(**parts: Shards) -> Mixture:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return Mixture.Config(parts).build("train")


def test_a_mixture_takes_the_regions_of_each_part(tmp_path):
    few = settings(shard(tmp_path / "a.tar", [{"regions.npy": npy(array(1))}] * 2))
    many = settings(shard(tmp_path / "b.tar", [{"regions.npy": npy(array(3))}] * 2))
    none = Shards(train=shard(tmp_path / "c.tar", [{}] * 2), validation="c")
    source = mixture(few=few, many=many, none=none)
    features, mask = source.regions(range(6))
    counts = {source.pair(index).key: int(mask[index].sum()) for index in range(6)}
    assert counts == {"a0": 1, "a1": 1, "b0": 3, "b1": 3, "c0": 0, "c1": 0}
    assert features.shape == (6, 3, 7)
    assert {source.tags(index) for index in range(6)} == {("red disc", "table"), ()}
    wide = settings(shard(tmp_path / "d.tar", [{"regions.npy": npy(array(1, 9))}]))
    with pytest.raises(UserError, match="are 7 and 9 numbers wide"):
        mixture(few=few, wide=wide)
