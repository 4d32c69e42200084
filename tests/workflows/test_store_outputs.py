"""`embed`, `regions` and `data prepare` into a store: the bytes of a folder on a disk, resumed, refused.

The store is a disk by its address (file:), which fsspec opens, and which several processes see; `test_s3_outputs.py`
asks a server of objects.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from slow_parts import SlowJob, contents
from test_engines import damaged_shard, worker
from test_index_workflow import model_in, shard

from equipoise.cli import main
from equipoise.data.features import FeatureFiles
from equipoise.data.files import Shards
from equipoise.io.results_folder import StoreFolder
from equipoise.types import UserError
from equipoise.workflows.engines.worker import TRIES

pytest.importorskip("fsspec")
pytest.importorskip("webdataset")


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    return model_in(tmp_path_factory.mktemp("model"), 0)


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    return shard(tmp_path_factory.mktemp("data") / "a.tar", 9)


def command(name: str, model: Path, data: Path, out: object) -> list[str]:
    words = {
        "embed": ["embed", str(model), str(data), "--per-shard", "2", "--out"],
        "parquet": ["embed", str(model), str(data), "--per-shard", "2", "--format", "parquet", "--out"],
        "regions": ["regions", str(data), "--per-file", "4", "--out"],
        "prepare": ["data", "prepare", str(data), "--size", "16", "--per-shard", "2"],
    }
    return [*words[name], str(out)]


def times(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}


@pytest.mark.parametrize("name", ["embed", "parquet", "regions", "prepare"])
def test_the_bytes_of_a_disk_and_nothing_twice(name, model, data, tmp_path, capsys):
    if name == "prepare":
        data = damaged_shard(tmp_path / "damaged.tar", 9)  # left_out.json too
    disk, store = tmp_path / "disk", tmp_path / "a" / "store"
    assert main(command(name, model, data, disk)) == 0
    assert main(command(name, model, data, f"file://{store}/")) == 0
    assert contents(disk) == contents(store)
    assert (store / "left_out.json").exists() == (name == "prepare")
    assert f"file://{store}" in capsys.readouterr().out
    lost = sorted(path for path in store.iterdir() if path.stem == "00001")
    for path in lost:
        path.unlink()
    (store / ".00002.safetensors.77.tmp").write_bytes(b"half")  # of a writer that was killed
    before = times(store)
    assert main(command(name, model, data, f"file://{store}")) == 0
    assert contents(disk) == contents(store)
    numbered = [name for name in before if name[:5].isdecimal()]
    assert {name: before[name] for name in numbered} == {name: times(store)[name] for name in numbered}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["embed", "regions", "prepare"])
def test_several_processes_write_what_one_does(name, model, data, tmp_path):
    assert main(command(name, model, data, tmp_path / "disk")) == 0
    assert main([*command(name, model, data, f"file://{tmp_path / 'store'}"), "--processes", "2"]) == 0
    assert contents(tmp_path / "disk") == contents(tmp_path / "store")


@pytest.mark.slow
def test_a_killed_command_leaves_whole_files_and_is_gone_on_with(model, tmp_path):
    many = shard(tmp_path / "a.tar", 60)
    store = tmp_path / "store"
    words = ["embed", str(model), str(many), "--per-shard", "1", "--out"]
    running = subprocess.Popen([sys.executable, "-m", "equipoise", *words, f"file://{store}"])
    while len(list(store.glob("*.safetensors"))) < 3 and running.poll() is None:
        time.sleep(0.005)
    running.send_signal(signal.SIGKILL)
    running.wait()
    assert main([*words, str(tmp_path / "disk")]) == 0
    left, whole = contents(store), contents(tmp_path / "disk")
    visible = {name: data for name, data in left.items() if not name.startswith(".")}
    assert visible == {name: whole[name] for name in visible}
    before = times(store)
    assert main([*words, f"file://{store}"]) == 0
    assert contents(store) == whole
    assert all(times(store)[name] == before[name] for name in visible)


def test_a_part_that_cannot_be_put_is_not_there(model, data, tmp_path, capsys, monkeypatch):
    from fsspec.implementations.local import LocalFileSystem

    def half(self, source, target, **_):
        if "00001.safetensors" in target:
            Path(self._strip_protocol(target)).write_bytes(Path(source).read_bytes()[:10])
            raise OSError("no room")
        return whole(self, source, target)

    whole = LocalFileSystem.put_file
    store = tmp_path / "store"
    with monkeypatch.context() as broken:
        broken.setattr(LocalFileSystem, "put_file", half)
        assert main(command("embed", model, data, f"file://{store}")) == 2
    assert "the store cannot be used (no room)" in capsys.readouterr().err
    assert {path.name for path in store.glob("0*.safetensors")} == {"00000.safetensors"}
    assert main(command("embed", model, data, f"file://{store}")) == 0
    assert main(command("embed", model, data, tmp_path / "disk")) == 0
    assert contents(store) == contents(tmp_path / "disk")


def test_what_another_job_wrote_stays_its_own(model, data, tmp_path, capsys):
    store = f"file://{tmp_path / 'store'}"
    assert main(command("embed", model, data, store)) == 0
    before = contents(tmp_path / "store")
    for words, told in (
        ([*command("embed", model, data, store), "--half"], f"other settings (half; see {store}/embedding.json)"),
        (command("regions", model, data, store), "holds 00000.safetensors of other work"),
        (command("prepare", model, data, store), "holds 00000.safetensors of other work"),
    ):
        capsys.readouterr()
        assert main(words) == 2
        error = capsys.readouterr().err
        assert told in error
        assert "choose another folder" in error
    assert contents(tmp_path / "store") == before


def test_a_folder_on_a_disk_is_guarded_in_the_same_way(model, data, tmp_path, capsys):
    assert main(command("regions", model, data, tmp_path / "out")) == 0
    assert main(command("embed", model, data, tmp_path / "out")) == 2
    assert "holds 00000.safetensors of other work, for there is no embedding.json" in capsys.readouterr().err


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_may_not_be_written_to(model, data, tmp_path, capsys):
    (tmp_path / "store").mkdir(mode=0o500)
    assert main(command("embed", model, data, f"file://{tmp_path / 'store'}")) == 2
    assert "this is not allowed" in capsys.readouterr().err


def test_a_note_that_is_no_table_and_lists_that_are_gone(model, data, tmp_path, capsys):
    store = tmp_path / "store"
    words = command("embed", model, data, f"file://{store}")
    assert main(words) == 0
    (store / "00001.json").unlink()
    assert main(words) == 2
    assert "lacks a file that belongs to it" in capsys.readouterr().err
    (store / "embedding.json").write_text("[1]")
    assert main(words) == 2
    assert f"cannot read file://{store}/embedding.json: it must hold a table" in capsys.readouterr().err


def test_workers_count_their_tries_in_a_store(tmp_path):
    (tmp_path / "store").mkdir()
    job = SlowJob(StoreFolder(f"file://{tmp_path / 'store'}"), tmp_path, seconds=0.0)
    for number in range(1, TRIES + 1):
        (tmp_path / "store" / f".00004.safetensors-begun.{number}.tmp").touch()
    assert "died" in worker(job).write(4).failed
    assert not worker(job).write(5).failed
    assert {name for name in contents(tmp_path / "store") if "00005" in name} == {"00005.json", "00005.safetensors"}


def test_features_and_regions_are_read_back(model, data, tmp_path):
    for name in ("embed", "regions"):
        assert main(command(name, model, data, f"file://{tmp_path / name}")) == 0
    there, cache = f"file://{tmp_path / 'embed'}", str(tmp_path / "cache")
    on_disk = FeatureFiles.Config(train=str(tmp_path / "embed")).build("train")
    for address in (there, f"{there}/{{00000..00004}}.safetensors"):
        copied = FeatureFiles.Config(train=address, cache=cache).build("train")
        assert [copied.pair(index) for index in range(9)] == [on_disk.pair(index) for index in range(9)]
        assert (copied.image_features(range(9))[0] == on_disk.image_features(range(9))[0]).all()
    assert len(list(Path(cache).rglob("*.safetensors"))) == 5  # once, by either name
    with pytest.raises(UserError, match=r"data\.cache"):
        FeatureFiles.Config(train=there).build("train")
    with pytest.raises(UserError, match="there is no file in it that ends in"):
        FeatureFiles.Config(train=f"file://{tmp_path / 'nothing'}", cache=cache).build("train")
    with pytest.raises(UserError, match="cannot be listed"):
        FeatureFiles.Config(train="https://example.org/features", cache=cache).build("train")

    found = [
        Shards(train=str(data), regions=regions, cache=cache, validation_share=0.2).build("train").region_folder
        for regions in (f"file://{tmp_path / 'regions'}", str(tmp_path / "regions"))
    ]
    keys = json.loads((tmp_path / "regions" / "00000.json").read_text())["keys"]
    assert (found[0].regions(keys)[0] == found[1].regions(keys)[0]).all()
