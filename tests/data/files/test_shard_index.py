"""Indices of shards: what is stored comes back, and what is not the index of this very shard is never believed."""

from __future__ import annotations

import json
import os
import pickle
import struct
import tarfile
import tracemalloc
import zlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from some_files import jpeg, records, write_tar

from equipoise.data.bad_records import Fault
from equipoise.data.files import ClassShards, Shards, index_files
from equipoise.data.files.index_files import OPEN_MAPS, index_file, mapped_index, owner_of, write_index
from equipoise.data.files.packed_index import CRC_ENDS, FIELDS, KINDS, NotThisIndex, PackedIndex, packed
from equipoise.data.files.shard_index import Shard, open_shard
from equipoise.data.files.tar_index import BLOCK
from equipoise.data.files.webdataset import ShardRecords
from equipoise.types import UserError

OWNER = bytes(16)
MANY = 100_000


def anything(_: object) -> None:
    """A check that every record passes."""


@pytest.fixture
def tar(tmp_path: Path) -> Path:
    files = {
        **records(3),
        "sub/größe.png": jpeg(),
        "sub/größe.txt": b"t",
        "sub/größe.json": b"{}",
        "x.txt": b"no image",
    }
    return write_tar(tmp_path / "a.tar", files)


def told(shard: Shard) -> list[object]:
    """All that an index says."""
    return [*((shard.key(record), shard.spans(record)) for record in range(len(shard))), *shard.faults]


def by_tarfile(path: Path) -> list[object]:
    found: dict[str, dict[str, tuple[int, int]]] = {}
    with tarfile.open(path) as tar:
        for member in tar:
            stem, _, ending = member.name.partition(".")
            kind = "image" if ending in ("jpg", "png") else ending
            found.setdefault(stem, {})[kind] = (member.offset_data, member.size)
    return [(key, dict(sorted(files.items(), key=lambda item: KINDS.index(item[0])))) for key, files in found.items()]


@pytest.mark.parametrize("cached", [False, True])
def test_an_index_says_what_tarfile_says(cached, tar, tmp_path):
    *wanted, (left_out, _) = by_tarfile(tar)
    for _ in range(2):  # made, then found
        shard = open_shard(tar, anything, tmp_path / "cache" if cached else None)
        assert told(shard) == [*wanted, Fault(f"{tar}, record {left_out}", "there is no image beside the text")]
        assert (shard.held is None) == cached


offsets = st.integers(1, 1 << 50).map(lambda block: block * BLOCK)
spans = st.tuples(st.one_of(st.just(BLOCK), offsets), st.integers(0, 1 << 40))
files = st.dictionaries(st.sampled_from(KINDS), spans)


@given(found=st.dictionaries(st.text(st.characters(codec="utf-8")), files, max_size=6), faulty=st.booleans())
@settings(max_examples=60)
def test_what_is_packed_comes_back(found, faulty):
    faults = [Fault("a.tar, record ü", "no \ud800 image")] if faulty else []
    index = PackedIndex(packed(OWNER, (1 << 62, -1), [*found], [*found.values()], faults))
    index.require_sound()
    assert {index.key(record): index.spans(record) for record in range(len(index))} == found
    assert index.faults() == faults
    assert pickle.loads(pickle.dumps(index)).data == index.data


def test_a_number_beyond_32_bits_makes_an_index_wide():
    edge = (1 << 32) * BLOCK
    for offset, bytes_each in ((edge - BLOCK, 4), (edge, 8)):
        data = packed(OWNER, (edge + BLOCK, 0), ["a"], [{"image": (offset, 7)}], [])
        assert PackedIndex(data).spans(0) == {"image": (offset, 7)}
        assert len(data) == FIELDS.size + 4 * bytes_each + 1


def test_records_beyond_two_tebibytes_are_read(tmp_path):
    entry, path = tarfile.TarInfo("rest.bin"), write_tar(tmp_path / "a.tar", records(1))
    entry.size = 3 << 40
    with tarfile.open(path) as found:
        end = max(member.offset_data + -(-member.size // BLOCK) * BLOCK for member in found)
    tail = write_tar(tmp_path / "tail.tar", records(2, start=1)).read_bytes()
    with path.open("r+b") as file:
        file.truncate(end)
        file.seek(end)
        file.write(entry.tobuf(tarfile.GNU_FORMAT))
        try:
            file.seek(entry.size, os.SEEK_CUR)
            file.write(tail)
        except OSError:
            pytest.skip("this file system has no files of 3 TiB")
    for _ in range(2):
        shard = open_shard(path, anything, tmp_path / "cache")
        assert shard.read(2, "image", "txt") == {"image": records(3)["00002.jpg"], "txt": records(3)["00002.txt"]}
        assert shard.spans(2)["txt"][0] > 3 << 40


def sealed(data: bytes, **changed: int) -> bytes:
    """An index with other fields in its header, and the CRC that fits."""
    names = ("magic", "version", "crc", "owner", "size", "changed", "records", "keys", "faults", "kinds", "wide")
    fields = dict(zip(names, FIELDS.unpack(data[: FIELDS.size]), strict=True)) | changed
    header, content = FIELDS.pack(*fields.values()), data[FIELDS.size :]
    crc = zlib.crc32(content, zlib.crc32(header[CRC_ENDS:]))
    return header[: CRC_ENDS - 4] + struct.pack("<I", crc) + header[CRC_ENDS:] + content


def test_only_the_whole_index_of_this_shard_is_believed(tar, tmp_path):
    cache, wanted = tmp_path / "cache", told(open_shard(tar, anything))
    open_shard(tar, anything, cache)
    (kept,) = cache.iterdir()
    sound = kept.read_bytes()
    renamed = sealed(sound.replace(b"00002", b"NAMED"))
    kept.write_bytes(renamed)
    assert [open_shard(tar, anything, cache).key(record) for record in range(3)] == ["00000", "00001", "NAMED"]
    other = write_tar(tmp_path / "other.tar", records(4))
    open_shard(other, anything, cache)
    unlike = [sealed(sound, version=3), sealed(sound, records=5), sealed(sound, wide=1), sealed(sound, kinds=1)]
    unlike += [sealed(renamed, size=1), sealed(renamed, changed=1), sealed(renamed, owner=OWNER)]
    unlike += [renamed[:-1], renamed + b"\0", json.dumps({"version": 3}).encode(), pickle.dumps({})]
    unlike += [sealed(renamed, keys=10, faults=1), index_file(cache, other).read_bytes()]
    unlike += [sound.replace(b"00002", b"NAMED")]  # with a CRC that does not fit
    for data in unlike:
        kept.write_bytes(data)
        assert told(open_shard(tar, anything, cache)) == wanted
        assert kept.read_bytes() == sound  # mended
    os.utime(tar, ns=(1, 1))
    kept.write_bytes(renamed)
    assert told(open_shard(tar, anything, cache)) == wanted


def test_no_damaged_or_shortened_index_is_believed(tar, tmp_path):
    cache, wanted = tmp_path / "cache", told(open_shard(tar, anything))
    open_shard(tar, anything, cache)
    (kept,) = cache.iterdir()
    sound = kept.read_bytes()
    for place in range(0, len(sound), 7):
        for damaged in (sound[:place], sound[:place] + bytes([sound[place] ^ 32]) + sound[place + 1 :]):
            kept.write_bytes(damaged)
            assert told(open_shard(tar, anything, cache)) == wanted


def test_what_could_not_be_is_refused_though_its_crc_fits():
    stamp, image = (10 * BLOCK, 0), {"image": (BLOCK, 5)}
    sound = packed(OWNER, stamp, ["aä", "b"], [image, image], [Fault("p", "r")])
    PackedIndex(sound).require_sound()
    at = FIELDS.size
    for place, number in ((at, 1), (at + 4, 9), (at + 4, 2), (at + 8, 3), (at + 12, 11), (at + 20, 9 * BLOCK + 1)):
        damaged = bytearray(sound)
        struct.pack_into("<I", damaged, place, number)
        with pytest.raises(NotThisIndex):
            PackedIndex(bytes(damaged)).require_sound()
    for text in (b'[["p","r"]]', b'[[1,"r"]]  ', b"[" * 12, b'[["p", 1]] '):
        damaged = bytearray(sound.replace(b'[["p", "r"]]', text.ljust(12)))
        if text.startswith(b'[["p","r"'):
            PackedIndex(bytes(damaged)).require_sound()
            continue
        with pytest.raises(NotThisIndex):
            PackedIndex(bytes(damaged)).require_sound()


def test_shards_of_one_name_have_indices_of_their_own(tmp_path):
    paths = [write_tar(tmp_path / name / "00000.tar", records(3, start)) for name, start in (("a", 0), ("b", 10))]
    for path in paths:
        os.utime(path, ns=(1, 1))
    for _ in range(2):
        shards = [open_shard(path, anything, tmp_path / "cache") for path in paths]
        assert [shard.key(0) for shard in shards] == ["00000", "00010"]
    assert len([*(tmp_path / "cache").iterdir()]) == 2


def open_files(folder: Path) -> int:
    found = [Path("/proc/self/fd") / name for name in os.listdir("/proc/self/fd")]
    return sum(str(folder) in os.readlink(path) for path in found if path.is_symlink())


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="needs Linux")
def test_maps_are_closed_and_mapped_again(tmp_path):
    count, cache = OPEN_MAPS + 20, tmp_path / "cache"
    paths = [write_tar(tmp_path / f"{number}.tar", {f"{number}.jpg": b"x"}) for number in range(count)]
    shards = [open_shard(path, anything, cache) for path in paths]
    assert open_files(cache) == 0
    for _ in range(2):
        assert [shard.key(0) for shard in shards] == [str(number) for number in range(count)]
        assert open_files(cache) == OPEN_MAPS
    mapped_index.cache_clear()
    assert open_files(cache) == 0


def test_a_file_is_compared_with_its_crc_until_it_is_known(tar, tmp_path, monkeypatch):
    shard = open_shard(tar, anything, tmp_path / "cache")
    (kept,) = (tmp_path / "cache").iterdir()
    crc, compared = zlib.crc32, []
    monkeypatch.setattr(index_files.zlib, "crc32", lambda *given: compared.append(given) or crc(*given))

    def comparisons() -> int:
        compared.clear()
        mapped_index.cache_clear()
        assert shard.key(0) == "00000"
        return len(compared)

    assert comparisons() == comparisons() > 0  # a file this new might be written again without a sign
    monkeypatch.setattr(index_files, "SETTLED", 0)
    assert comparisons() > comparisons() == 0
    os.utime(kept, ns=(1, 1))
    assert comparisons() > comparisons() == 0
    kept.write_bytes(kept.read_bytes().replace(b"00000", b"NAMED"))
    assert comparisons() > 0


def test_an_index_that_was_lost_meanwhile_is_made_again(tar, tmp_path):
    cache, wanted = tmp_path / "cache", told(open_shard(tar, anything))
    shard = pickle.loads(pickle.dumps(open_shard(tar, anything, cache)))
    (kept,) = cache.iterdir()
    sound = kept.read_bytes()
    for lost in (b"", sound[:-3], sealed(sound.replace(b"00002", b"NAMED")), None):
        kept.unlink() if lost is None else kept.write_bytes(lost)
        mapped_index.cache_clear()
        assert told(shard) == wanted
        assert kept.read_bytes() == sound
    write_tar(tar, records(2))
    kept.unlink()
    mapped_index.cache_clear()
    with pytest.raises(UserError, match=r"a\.tar: this shard was changed while it was in use; start again"):
        shard.key(0)


@pytest.mark.parametrize("kind", ["pairs", "classes"])
def test_a_process_is_sent_the_place_of_an_index_not_the_index(kind, tmp_path):
    beside = {"txt": b"t", "cls": b"0"}
    path = write_tar(
        tmp_path / "a.tar",
        {f"{number:06d}.{ending}": data for number in range(2000) for ending, data in ({"jpg": b"x"} | beside).items()},
    )
    (tmp_path / "classnames.txt").write_text("cat\n")
    (tmp_path / "templates.txt").write_text("a {}\n")
    config = Shards if kind == "pairs" else ClassShards
    bytes_of = {}
    for cache in ("", str(tmp_path / "cache")):
        found = config(test=str(path), cache=cache).records((str(path),))
        data = pickle.dumps(found)
        bytes_of[cache] = len(data)
        assert pickle.loads(data).key(1999) == "001999"
    without, cached = bytes_of.values()
    assert cached < 2000
    assert without < 2000 * 48


def test_an_index_takes_no_memory_of_the_process(tmp_path):
    """A record has 29 bytes in the file here; none of them is copied."""
    path = tmp_path / "a.tar"
    with path.open("wb") as file:
        file.truncate((4 * MANY + 2) * BLOCK)
    stamp = path.stat().st_size, path.stat().st_mtime_ns
    spans = [{"image": ((4 * n + 1) * BLOCK, 700), "txt": ((4 * n + 3) * BLOCK, 40)} for n in range(MANY)]
    data = packed(owner_of(path), stamp, [f"{number:09d}" for number in range(MANY)], spans, [])
    assert len(data) < 30 * MANY
    write_index(index_file(tmp_path, path), data)
    tracemalloc.start()
    found = ShardRecords([open_shard(path, anything, tmp_path)])
    assert [found.key(index) for index in range(0, MANY, 97)] == [f"{number:09d}" for number in range(0, MANY, 97)]
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert len(found) == MANY
    assert held < MANY / 2
