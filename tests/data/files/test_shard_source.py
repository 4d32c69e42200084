"""Shards as a source: what is read, what is refused, and that any record is where the index says."""

from __future__ import annotations

import json
import os
import pickle
import tarfile
import warnings
from contextlib import suppress
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from some_files import encode, jpeg, picture, records, write_tar

from equipoise.data.bad_records import BadRecord
from equipoise.data.files import ClassShards, Shards
from equipoise.data.files.shard_index import open_shard
from equipoise.data.preprocess import Preprocess
from equipoise.data.scenes import Scenes
from equipoise.data.shard_writer import write_shards
from equipoise.data.source import Pair, can_crop, is_labelled
from equipoise.types import UserError


def whole(*patterns: object, **options: object) -> Shards:
    return Shards(test=tuple(map(str, patterns)), max_bad=1.0, **options)


@pytest.fixture
def shards(tmp_path: Path) -> Shards:
    write_tar(tmp_path / "a-0.tar", records(5))
    write_tar(tmp_path / "a-1.tar", records(7, start=5))
    return Shards(test="a-{0..1}.tar", root=str(tmp_path))


def test_any_record_is_read_directly(shards):
    source = shards.build("test")
    assert can_crop(source)
    assert not is_labelled(source)
    assert len(source) == 12
    for index in (11, 0, 5, 4):
        pair = source.pair(index)
        assert pair.key == f"{index:05d}"
        assert pair.captions == tuple(f"picture {index} told in way {way}" for way in range(1 + index % 3))
        assert source.encoded(index).data == jpeg(30 + index % 13, 40 + index % 7, index)
    with pytest.raises(IndexError):
        source.pair(12)


def test_images_are_clips_evaluation(shards, tmp_path):
    source = shards.build("test")
    pixels = source.images([7, 2], 20)
    for row, index in zip(pixels, (7, 2), strict=True):
        (tmp_path / "a.jpg").write_bytes(source.encoded(index).data)
        expected = Preprocess(20).for_evaluation(tmp_path / "a.jpg")
        torch.testing.assert_close(Preprocess(20).for_evaluation(row[None]), expected, rtol=0, atol=1e-5)


def test_all_kinds_of_images_and_folders_inside(tmp_path):
    files = {f"sub/{kind}.{ending}": encode(picture(), kind) for kind, ending in
             (("JPEG", "jpeg"), ("PNG", "PNG"), ("WEBP", "webp"))}  # fmt: skip
    files |= {f"./sub/{kind}.txt": b"a caption" for kind in ("JPEG", "PNG", "WEBP")}
    source = whole(write_tar(tmp_path / "a.tar", files)).build("test")
    assert [source.pair(index).key for index in range(3)] == ["sub/JPEG", "sub/PNG", "sub/WEBP"]
    assert source.images(range(3), 16).shape == (3, 3, 16, 16)


def test_side_data_goes_along(tmp_path):
    side = {
        "label": "cat",
        "tags": ["cat", "mat"],
        "boxes": [[0, 0, 0.5, 1], [0, 0.5, 1, 1]],
        "truth": {"seen": True},
        "url": "http://x",
        "caption": ["from json", " and another "],
    }
    files = {"0.jpg": jpeg(), "0.json": json.dumps(side).encode(), "0.txt": "\ufefffrom text\n\n".encode()}
    write_tar(tmp_path / "a.tar", files)
    expected = Pair("0", ("from text",), "cat", ("cat", "mat"), ((0.0, 0.0, 0.5, 1.0), (0.0, 0.5, 1.0, 1.0)))
    pair = whole(tmp_path / "a.tar").build("test").pair(0)
    assert (pair.key, pair.captions, pair.label, pair.tags, pair.boxes) == (
        expected.key, expected.captions, expected.label, expected.tags, expected.boxes,
    )  # fmt: skip
    assert pair.truth == {"seen": True, "url": "http://x", "caption": side["caption"]}
    by_key = whole(tmp_path / "a.tar", caption_key="caption").build("test").pair(0)
    assert by_key.captions == ("from json", "and another")


def test_what_write_shards_writes_comes_back(tmp_path):
    pytest.importorskip("webdataset")
    scenes = Scenes.Config(train_size=6, validation_size=1, test_size=1).build("train")
    write_shards(scenes, tmp_path, size=32, per_shard=4, image_format="png")
    source = whole(tmp_path).build("test")
    for index in range(6):
        ours, theirs = source.pair(index), scenes.pair(index)
        assert ours.captions == theirs.captions
        assert (ours.key, ours.label, ours.tags) == (theirs.key, theirs.label, theirs.tags)
        assert ours.boxes == tuple(tuple(map(float, box)) for box in theirs.boxes)
        assert json.dumps(ours.truth) == json.dumps(theirs.truth)
    assert torch.equal(source.images(range(6), 32), scenes.images(range(6), 32))


FAULTS = {
    "no image": ({"x.txt": b"text"}, "there is no image beside the text"),
    "empty image": ({"x.jpg": b"", "x.txt": b"text"}, "the image is empty, 0 bytes"),
    "no text": ({"x.jpg": jpeg()}, "there is no .txt beside the image"),
    "empty text": ({"x.jpg": jpeg(), "x.txt": b" \n \n"}, "the caption is empty"),
    "not UTF-8": ({"x.jpg": jpeg(), "x.txt": b"caf\xe9"}, r"the caption is not UTF-8 text \(byte 3\)"),
    "bad json": ({"x.jpg": jpeg(), "x.txt": b"t", "x.json": b"{"}, "the .json cannot be read"),
    "deep json": ({"x.jpg": jpeg(), "x.txt": b"t", "x.json": b"[" * 100_000}, "the .json cannot be read"),
    "list json": ({"x.jpg": jpeg(), "x.txt": b"t", "x.json": b"[1]"}, "holds no table"),
    "half a label": ({"x.jpg": jpeg(), "x.txt": b"t", "x.json": b'{"label": "\\ud800"}'}, "half a character"),
    "half a tag": ({"x.jpg": jpeg(), "x.txt": b"t", "x.json": b'{"tags": ["a", "\\udfffb"]}'}, "half a character"),
    "half a name": ({"x.jpg": jpeg(), "x.txt": b"t", "x.json": b'{"a": {"\\uDABC": 1}}'}, "half a character"),
    "two texts": ([("x.jpg", jpeg()), ("x.txt", b"a"), ("x.txt", b"b")], "its record has another .txt"),
    "up": ({"../../x.jpg": jpeg(), "../../x.txt": b"a"}, "entry ../../x.jpg: its name leads out of the shard"),
    "absolute": ({"/etc/x.jpg": jpeg()}, "entry /etc/x.jpg: its name leads out of the shard"),
}


@pytest.mark.parametrize("case", FAULTS)
def test_bad_records_are_left_out_and_named(case, tmp_path):
    files, reason = FAULTS[case]
    both = [*records(2).items(), *(files.items() if isinstance(files, dict) else files)]
    path = write_tar(tmp_path / "a.tar", both)
    with pytest.warns(
        UserWarning, match=rf"records of .*a\.tar are left out, the first for this: .*a\.tar, .*{reason}"
    ):
        source = whole(path).build("test")
    assert [source.pair(index).key for index in range(2)] == ["00000", "00001"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.tar"]  # nothing was unpacked


def test_whole_characters_in_escapes_are_read(tmp_path):
    side = b'{"label": "\\ud83d\\ude00", "url": "C:\\\\ud800"}'
    path = write_tar(tmp_path / "a.tar", {"x.jpg": jpeg(), "x.txt": b"t", "x.json": side})
    pair = whole(path).build("test").pair(0)
    assert (pair.label, pair.truth) == ("\U0001f600", {"url": "C:\\ud800"})


def write_sparse_tar(path: Path, name: str, size: int) -> Path:
    """A sound record, then one of which a file is as large as its header says, without taking room on the disk."""
    entry = tarfile.TarInfo(name)
    entry.size = size
    files = {f"x.{ending}": data for ending, data in (("jpg", jpeg()), ("txt", b"t")) if f"x.{ending}" != name}
    write_tar(path, {**records(1), **files}, format=tarfile.GNU_FORMAT)
    with tarfile.open(path) as tar:
        end = max(member.offset_data + -(-member.size // 512) * 512 for member in tar)
    with path.open("r+b") as file:
        file.truncate(end)
        file.seek(end)
        file.write(entry.tobuf(tarfile.GNU_FORMAT))
        file.truncate(file.tell() + -(-size // 512) * 512 + 1024)
    return path


@pytest.mark.parametrize(
    ("name", "size"), [("x.txt", 3 << 30), ("x.txt", (1 << 22) + 1), ("x.json", 10 << 30), ("x.jpg", 3 << 30)]
)
def test_what_is_too_large_by_its_header_is_not_read(name, size, tmp_path, monkeypatch):
    path = write_sparse_tar(tmp_path / "a.tar", name, size)
    pread, read = os.pread, []
    monkeypatch.setattr(os, "pread", lambda file, count, start: read.append(count) or pread(file, count, start))
    shard = open_shard(path, lambda _: None)
    assert [shard.key(record) for record in range(len(shard))] == ["00000"]
    (fault,) = shard.faults
    assert fault.place == f"{path}, record x"
    assert f" has {size:,} bytes, and " in fault.reason
    assert max(read) < 1000


def test_a_record_is_one_fault_whatever_is_wrong_with_its_entries(tmp_path):
    path = write_tar(tmp_path / "a.tar", {**records(1), "x.txt": b"t"})
    with tarfile.open(path, "a") as tar:
        for name in ("x.jpg", "x.json"):
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = tarfile.SYMTYPE, "/etc/passwd"
            tar.addfile(entry)
    assert [fault.place.rpartition(", ")[2] for fault in open_shard(path, lambda _: None).faults] == ["entry x.jpg"]


def test_links_are_no_records(tmp_path):
    path = write_tar(tmp_path / "a.tar", records(1))
    with tarfile.open(path, "a") as tar:
        entry = tarfile.TarInfo("x.jpg")
        entry.type, entry.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(entry)
    shard = open_shard(path, lambda _: None)
    assert [fault.reason for fault in shard.faults] == ["it is a link or a device, not a file"]


def test_a_caption_key_that_is_missing(tmp_path):
    path = write_tar(tmp_path / "a.tar", {**records(1), "x.jpg": jpeg(), "x.json": b'{"alt": 3, "list": [1]}'})
    for key, reason in (("cap", 'no "cap"'), ("alt", "neither a caption"), ("list", "neither a caption")):
        shards = whole(path, caption_key=key)
        missing, wrong = shards.records((str(path),)).faults
        assert missing.reason == "there is no .json beside the image"
        assert reason in wrong.reason


def test_too_many_bad_records_are_fatal(tmp_path):
    files = records(20) | {f"bad{number}.jpg": jpeg() for number in range(11)}
    path = write_tar(tmp_path / "a.tar", files)
    with pytest.raises(
        UserError, match=r"11 of 31 records cannot be used, more than the share of 0\.01 .* record bad0"
    ):
        Shards(test=str(path)).build("test")
    with pytest.raises(UserError, match="11 of 31"):
        Shards(train=str(path), validation=str(path)).build("train")


def test_pictures_that_cannot_be_decoded(tmp_path):
    """In evaluation they are left out; in training the source names them."""
    files = records(3)
    files["00001.jpg"] = files["00001.jpg"][:300]
    path = str(write_tar(tmp_path / "a.tar", files))
    with pytest.warns(UserWarning, match="record 00001: this cannot be read as an image"):
        held = Shards(test=path).build("test")
    assert [held.pair(index).key for index in range(2)] == ["00000", "00002"]
    train = Shards(train=path, validation=path).build("train")
    assert len(train) == 3
    for index in (0, 2):
        image = train.open(index).image
        assert image.crops([(0, 0, image.width, image.height)], 8)[0].float().std() > 0
    with pytest.raises(BadRecord) as error:
        train.open(1)
    assert "record 00001" in error.value.fault.place


def test_shards_that_are_missing_changed_or_cut(shards, tmp_path):
    source = shards.build("test")
    path = tmp_path / "a-1.tar"
    data = path.read_bytes()
    path.write_bytes(data[:2000])
    with pytest.raises(UserError, match=r"a-1\.tar: this shard was changed while it was in use"):
        source.images([7], 8)
    with pytest.raises(UserError, match=r"a-1\.tar: this shard is cut short or damaged"):
        shards.build("test")
    path.rename(tmp_path / "b.tar")
    with pytest.raises(UserError, match=r"a-1\.tar: this shard cannot be opened \(No such file"):
        source.pair(7)
    with pytest.raises(UserError, match=r"a-1\.tar: there is no such file"):
        shards.build("test")


def test_a_source_survives_pickling(shards):
    source = shards.build("test")
    copy = pickle.loads(pickle.dumps(source))
    assert copy.pair(3) == source.pair(3)
    assert torch.equal(copy.images([3], 8), source.images([3], 8))


def test_validation_is_held_out_by_key(tmp_path):
    write_tar(tmp_path / "a.tar", records(60))
    settings = Shards(train="a.tar", root=str(tmp_path), validation_share=0.3)
    with pytest.warns(UserWarning, match=r"data\.validation is not given: 30% of the training records"):
        train = settings.build("train")
    with pytest.warns(UserWarning, match=r"data\.test is not given: the \d+ validation records"):
        test = settings.build("test")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        validation = settings.build("validation")
    keys = [{source.pair(index).key for index in range(len(source))} for source in (train, validation, test)]
    assert keys[1] == keys[2]
    assert keys[0] | keys[1] == {f"{number:05d}" for number in range(60)}
    assert not keys[0] & keys[1]
    assert 8 <= len(keys[1]) <= 28
    write_tar(tmp_path / "a.tar", records(90))  # more data does not move what was there
    with pytest.warns(UserWarning, match="held out"):
        grown = settings.build("train")
    assert keys[0] <= {grown.pair(index).key for index in range(len(grown))}


def test_splits(tmp_path):
    for name, start in (("t", 0), ("v", 20), ("x", 40)):
        write_tar(tmp_path / f"{name}.tar", records(3, start))
    settings = Shards(train="t.tar", validation="v.tar", test="x.tar", root=str(tmp_path))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert [settings.build(split).pair(0).key for split in ("train", "validation", "test")] == [
            "00000",
            "00020",
            "00040",
        ]
    with pytest.raises(UserError, match='no split "dev"'):
        settings.build("dev")
    with pytest.raises(UserError, match=r"data\.train names no files"):
        Shards().build("train")
    with pytest.raises(UserError, match="max_bad is 2"):
        Shards(max_bad=2.0)
    with pytest.raises(UserError, match="validation_share is 0"):
        Shards(validation_share=0.0)


@given(data=st.data())
@settings(max_examples=60, deadline=None)
@pytest.mark.filterwarnings("ignore")
def test_damaged_shards_raise_nothing_else(data, tmp_path_factory):
    path = tmp_path_factory.mktemp("damaged") / "a.tar"
    content = bytearray(write_tar(path, {**records(2), "00001.json": b'{"tags": ["a"]}'}).read_bytes())
    for _ in range(data.draw(st.integers(0, 30))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(content[: data.draw(st.integers(len(content) // 2, len(content)))])
    with suppress(UserError):
        source = whole(path).build("test")
        assert all(source.pair(index).captions for index in range(len(source)))
        assert source.images(range(len(source)), 8).shape[1:] == (3, 8, 8)


def test_class_shards(tmp_path):
    files = {f"{number}.jpg": jpeg(seed=number) for number in range(3)} | {
        f"{n}.cls": b"%d\n" % (n % 2) for n in range(3)
    }
    path = write_tar(tmp_path / "a.tar", files | {"bad.jpg": jpeg(), "bad.cls": b"2"})
    (tmp_path / "classnames.txt").write_text("cat\nhot dog\n")
    (tmp_path / "templates.txt").write_text("a photo of a {c}.\na {} on a {}.\n")
    with pytest.warns(UserWarning, match="record bad: the .cls is b'2', not a number from 0 to 1"):
        source = ClassShards(test=str(path)).build("test")
    assert is_labelled(source)
    assert source.class_names == ("cat", "hot dog")
    assert source.templates == ("a photo of a {}.", "a {} on a {}.")
    assert source.pair(1).label == "hot dog"
    assert source.pair(1).captions == ("a photo of a hot dog.", "a hot dog on a hot dog.")


def test_class_lists_that_are_wrong(tmp_path):
    path = write_tar(tmp_path / "a.tar", {"0.jpg": jpeg(), "0.cls": b"0"})
    settings = ClassShards(test=str(path))
    with pytest.raises(UserError, match=r"classnames\.txt: the class names cannot be read"):
        settings.build("test")
    (tmp_path / "classnames.txt").write_text("cat\ncat\n")
    (tmp_path / "templates.txt").write_text("no place\n")
    with pytest.raises(UserError, match='the class "cat" is there twice'):
        settings.build("test")
    (tmp_path / "classnames.txt").write_text("cat\n")
    with pytest.raises(UserError, match=r'templates\.txt: the template "no place" has no place'):
        settings.build("test")
