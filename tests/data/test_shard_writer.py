from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import webdataset

from equipoise.data.scenes.corpus import Scenes
from equipoise.data.shard_writer import write_shards
from equipoise.types import UserError

SCENES = Scenes.Config(test_size=25).build("test")


def read(paths: list[Path]) -> list[dict]:
    data = webdataset.WebDataset([str(path) for path in paths], shardshuffle=False)
    return list(data.decode("rgb8"))


def test_what_was_written_is_read_back(tmp_path: Path) -> None:
    done: list[tuple[int, int]] = []
    paths = write_shards(SCENES, tmp_path, 32, 10, lambda number, total: done.append((number, total)), "png")
    assert [path.name for path in paths] == ["00000.tar", "00001.tar", "00002.tar"]
    assert done == [(10, 25), (20, 25), (25, 25)]
    samples = read(paths)
    assert len(samples) == 25
    images = SCENES.images(range(25), 32).permute(0, 2, 3, 1).numpy()
    for index, sample in enumerate(samples):
        pair = SCENES.pair(index)
        assert sample["__key__"] == sample["json"]["key"] == pair.key
        assert sample["txt"].splitlines() == list(pair.captions)
        assert sample["json"]["truth"] == pair.truth
        assert sample["json"]["tags"] == list(pair.tags)
        assert sample["json"]["boxes"] == [list(box) for box in pair.boxes]
        assert sample["json"]["label"] == pair.label
        np.testing.assert_array_equal(sample["png"], images[index])


def test_jpegs_are_close(tmp_path: Path) -> None:
    sample = read(write_shards(SCENES, tmp_path, 64))[0]
    image = SCENES.images([0], 64)[0].permute(1, 2, 0).numpy()
    assert np.abs(sample["jpg"].astype(float) - image).mean() < 4


def test_an_interrupted_run_goes_on_where_it_stopped(tmp_path: Path) -> None:
    def stop(number: int, total: int) -> None:
        if number == 20:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_shards(SCENES, tmp_path / "a", 16, 10, stop)
    kept = (tmp_path / "a" / "00000.tar").stat().st_mtime_ns
    paths = write_shards(SCENES, tmp_path / "a", 16, 10)
    assert paths[0].stat().st_mtime_ns == kept
    whole = write_shards(SCENES, tmp_path / "b", 16, 10)
    assert [path.read_bytes() for path in paths] == [path.read_bytes() for path in whole]


def test_a_failed_shard_leaves_nothing_behind(tmp_path: Path) -> None:
    class Broken(Scenes):
        def pair(self, index: int):
            if index == 15:
                raise RuntimeError("bad record")
            return super().pair(index)

    with pytest.raises(RuntimeError, match="bad record"):
        write_shards(Broken(SCENES.config, "test"), tmp_path, 16, 10)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["00000.tar", "shards.json"]


def test_shards_of_other_settings_are_not_mixed(tmp_path: Path) -> None:
    write_shards(SCENES, tmp_path, 16, 10)
    for other, size in ((SCENES, 32), (Scenes.Config(test_size=25, seed=1).build("test"), 16)):
        with pytest.raises(UserError, match="holds shards of other data"):
            write_shards(other, tmp_path, size, 10)


@pytest.mark.parametrize("arguments", [{"size": 0}, {"size": 16, "per_shard": 0}, {"size": 16, "image_format": "gif"}])
def test_bad_settings_are_refused(tmp_path: Path, arguments: dict) -> None:
    with pytest.raises(UserError):
        write_shards(SCENES, tmp_path, **arguments)
    assert not list(tmp_path.iterdir())
