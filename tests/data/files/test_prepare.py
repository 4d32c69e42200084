"""Re-encoding: sizes, what is kept, what is left out, going on after a stop."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from some_files import encode, jpeg, picture, records, write_tar

from equipoise.data.decode import ORIENTATION
from equipoise.data.encoded_image import encoded
from equipoise.data.files import Shards, Table
from equipoise.data.files.prepare import LEFT_OUT, Prepare, entry_name, note_of, resized
from equipoise.data.files.prepare_parts import gather_left_out, prepare_writer
from equipoise.data.shard_writer import NOTE
from equipoise.io.results_folder import DiskFolder
from equipoise.io.resumable import claim
from equipoise.types import UserError

pytest.importorskip("webdataset")


def contents(path: Path) -> dict[str, bytes]:
    with tarfile.open(path) as tar:
        return {entry.name: tar.extractfile(entry).read() for entry in tar}


def prepare(source, folder: Path, settings: Prepare, done) -> list[Path]:
    """What `data prepare` does in one process; `done` is told the record after each shard."""
    claim(folder, note_of(source, settings), NOTE)
    writer = prepare_writer(source, folder, settings)
    for number in range(len(writer.files)):
        writer.write(number)
        done(writer.files.records_of(number).stop)
    gather_left_out(DiskFolder(folder))
    return writer.files.paths()


def open_image(data: bytes) -> Image.Image:
    return Image.open(io.BytesIO(data))


def test_the_shorter_side_becomes_the_size():
    for height, width, expected in ((300, 401, (43, 32)), (600, 100, (32, 192)), (40, 33, (32, 39))):
        image = open_image(resized(encoded(jpeg(height, width), ""), 32, 90))
        assert image.size == expected
        whole = open_image(jpeg(height, width)).resize(expected, Image.Resampling.BICUBIC)
        pillow = open_image(encode(whole, quality=90))
        assert np.abs(np.asarray(image).astype(int) - np.asarray(pillow)).mean() < 1.5


def test_small_upright_jpegs_keep_their_bytes_and_others_become_jpegs():
    small = jpeg(20, 30)
    assert resized(encoded(small, ""), 32, 90) == small
    note = Image.Exif()
    note[ORIENTATION] = 6
    assert open_image(resized(encoded(encode(picture(20, 30), exif=note), ""), 32, 90)).size == (20, 30)
    cmyk = encode(picture(20, 30).convert("CMYK"))
    assert open_image(resized(encoded(cmyk, ""), 32, 90)).mode == "RGB"
    png = resized(encoded(encode(picture(20, 30), "PNG"), ""), 32, 90)
    assert (open_image(png).format, open_image(png).size) == ("JPEG", (30, 20))


def test_shards_keep_their_side_files(tmp_path):
    files = {**records(5), "00002.json": b'{"url":  "kept as it is"}', "bad.jpg": jpeg()[:300], "bad.txt": b"x"}
    source = Shards().records((str(write_tar(tmp_path / "a.tar", files)),))
    done: list[int] = []
    paths = prepare(source, tmp_path / "out", Prepare(size=16, per_shard=4), done.append)
    assert [path.name for path in paths] == ["00000.tar", "00001.tar"]
    assert done == [4, 6]
    written = contents(paths[0]) | contents(paths[1])
    kept = {name: data for name, data in files.items() if not name.endswith("jpg") and not name.startswith("bad")}
    assert {name: data for name, data in written.items() if not name.endswith("jpg")} == kept
    assert all(min(open_image(data).size) == 16 for name, data in written.items() if name.endswith("jpg"))
    (place,) = json.loads((tmp_path / "out" / LEFT_OUT).read_text())
    assert place.endswith("record bad")
    assert len(Shards().records((str(tmp_path / "out"),))) == 5


def test_it_goes_on_where_it_stopped(tmp_path):
    source = Shards().records((str(write_tar(tmp_path / "a.tar", records(9))),))
    settings = Prepare(size=16, per_shard=3)

    def stop(done: int) -> None:
        if done == 6:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        prepare(source, tmp_path / "out", settings, stop)
    first = tmp_path / "out" / "00000.tar"
    stamp = first.stat().st_mtime_ns
    paths = prepare(source, tmp_path / "out", settings, lambda _: None)
    assert first.stat().st_mtime_ns == stamp
    whole = prepare(source, tmp_path / "whole", settings, lambda _: None)
    assert [path.read_bytes() for path in paths] == [path.read_bytes() for path in whole]
    assert not list((tmp_path / "out").glob(".*"))
    with pytest.raises(UserError, match=r"other settings \(size; see .*shards.json\)"):
        prepare(source, tmp_path / "out", Prepare(size=17, per_shard=3), lambda _: None)


def test_shards_may_be_written_in_any_order(tmp_path):
    """As by several processes: the same shards, and the same records left out."""
    files = {**records(7), "0a.jpg": b"no picture", "0a.txt": b"x", "zz.jpg": jpeg()[:300], "zz.txt": b"y"}
    source, settings = Shards().records((str(write_tar(tmp_path / "a.tar", files)),)), Prepare(size=16, per_shard=4)
    one, other = tmp_path / "one", tmp_path / "other"
    paths = prepare(source, one, settings, lambda _: None)
    other.mkdir()
    for number in (2, 0, 1):
        prepare_writer(source, other, settings).write(number)
    for _ in range(2):  # a second time there is nothing to gather
        gather_left_out(DiskFolder(other))
    assert [(other / path.name).read_bytes() for path in paths] == [path.read_bytes() for path in paths]
    assert (other / LEFT_OUT).read_bytes() == (one / LEFT_OUT).read_bytes()
    assert len(json.loads((one / LEFT_OUT).read_text())) == 2
    assert not list(other.glob(".*"))


def test_tables_become_shards_with_names_of_their_own(tmp_path):
    for name in ("a.b.jpg", "c.jpg"):
        (tmp_path / name).write_bytes(jpeg())
    (tmp_path / "t.csv").write_text(f"filepath,title,kind\na.b.jpg,one,x\n{tmp_path}/c.jpg,two,y\na.b.jpg,three,x\n")
    table = Table(label="kind", join="none").records((str(tmp_path / "t.csv"),))
    prepare(table, tmp_path / "out", Prepare(size=16), lambda _: None)
    again = Shards().records((str(tmp_path / "out"),))
    assert not again.faults
    pairs = [again.pair(index) for index in range(3)]
    assert [(pair.captions, pair.label) for pair in pairs] == [(("one",), "x"), (("two",), "y"), (("three",), "x")]
    assert [pairs[0].key, pairs[2].key] == ["a_b", "a_b-2"]


def test_settings_and_data_without_sense(tmp_path):
    for options in ({"size": 0}, {"quality": 101}, {"per_shard": 0}):
        with pytest.raises(UserError, match="prepare needs"):
            Prepare(**options)
    with pytest.raises(UserError, match="no usable records"):
        prepare(Shards().records((str(write_tar(tmp_path / "a.tar", {"a.txt": b""})),)), tmp_path, Prepare(), print)


def test_a_key_that_ends_like_a_picture_keeps_its_name():
    assert [entry_name(key) for key in ("fotojpg", "in/a.b.JPG", "c.png")] == ["fotojpg", "in_a_b", "c"]
