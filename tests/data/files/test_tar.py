"""Entries of tars against the standard library's reader, and tars that are none."""

from __future__ import annotations

import gzip
import io
import subprocess
import tarfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from some_files import write_tar

from equipoise.data.files.tar_index import BLOCK, entries
from equipoise.types import UserError

NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=200)


def oracle(path: Path) -> list[tuple[str, int, int, bool]]:
    with tarfile.open(path, "r:") as tar:
        return [(entry.name, entry.offset_data, entry.size, entry.isreg()) for entry in tar if not entry.isdir()]


@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_all_formats_long_names_and_sizes(form, tmp_path):
    long = "deep/" * 18 + "x.jpg"
    files = {"a.txt": b"", "b.jpg": b"x" * 512, "c.json": b"y" * 513, long: b"z" * 1025}
    if form != tarfile.USTAR_FORMAT:
        files |= {"n" * 180 + ".txt": b"long", "ünï/çode.txt": b"name"}
    path = write_tar(tmp_path / "a.tar", files, format=form)
    found = list(entries(path))
    assert [tuple(entry) for entry in found] == oracle(path)
    data = path.read_bytes()
    assert {entry.name: data[entry.offset : entry.offset + entry.size] for entry in found} == files


def test_a_shard_of_many_members_is_read_as_the_standard_library_reads_it(tmp_path):
    """The reason to read headers by hand is speed alone: what is read must be the same."""
    files = [(f"{number:06d}.{ending}", bytes(number % 700)) for number in range(500) for ending in ("jpg", "txt")]
    path = tmp_path / "many.tar"
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as tar:
        for name, data in files:
            entry = tarfile.TarInfo(name)
            entry.size, entry.mtime = len(data), 1.5  # a fraction needs a PAX record of its own
            tar.addfile(entry, io.BytesIO(data))
    found = [tuple(entry) for entry in entries(path)]
    assert len(found) == 1000
    assert found == oracle(path)


@given(files=st.lists(st.tuples(NAMES, st.binary(max_size=1100)), max_size=5))
@settings(max_examples=60, deadline=None)
def test_any_names_and_contents(files, tmp_path_factory):
    path = write_tar(tmp_path_factory.mktemp("tar") / "a.tar", [(name.strip("/") or "x", data) for name, data in files])
    assert [tuple(entry) for entry in entries(path)] == oracle(path)


def test_tars_of_gnu_tar(tmp_path):
    (tmp_path / "in").mkdir()
    for name in ("a.txt", "b" * 150 + ".txt", "ü.txt"):
        (tmp_path / "in" / name).write_text(name)
    for form in ("v7", "ustar", "gnu", "pax"):
        names = ["a.txt", "ü.txt"] if form in ("v7", "ustar") else None
        what = [f"in/{name}" for name in names] if names else ["in"]
        subprocess.run(["tar", f"--format={form}", "-cf", f"{form}.tar", *what], cwd=tmp_path, check=True)
        path = tmp_path / f"{form}.tar"
        assert [tuple(entry) for entry in entries(path)] == oracle(path)


def test_links_and_devices_are_told_apart_from_files(tmp_path):
    path = tmp_path / "a.tar"
    with tarfile.open(path, "w") as tar:
        for name, kind in (
            ("l", tarfile.SYMTYPE),
            ("h", tarfile.LNKTYPE),
            ("d", tarfile.CHRTYPE),
            ("f", tarfile.REGTYPE),
        ):
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = kind, "/etc/passwd"
            tar.addfile(entry)
        folder = tarfile.TarInfo("folder")
        folder.type = tarfile.DIRTYPE
        tar.addfile(folder)
    assert [(entry.name, entry.is_file) for entry in entries(path)] == [
        ("l", False), ("h", False), ("d", False), ("f", True),
    ]  # fmt: skip


def test_a_size_written_in_binary(tmp_path):
    """Above 8 GiB the size is no longer octal; here a small one is written that way."""
    path = write_tar(tmp_path / "a.tar", {"a.txt": b"hello"})
    data = bytearray(path.read_bytes())
    data[124:136] = b"\x80" + (5).to_bytes(11, "big")
    data[148:156] = b" " * 8
    data[148:156] = f"{sum(data[:BLOCK]):06o}\0 ".encode()
    path.write_bytes(data)
    assert [tuple(entry) for entry in entries(path)] == [("a.txt", 512, 5, True)]


def test_what_is_no_whole_tar_is_refused(tmp_path):
    whole = write_tar(tmp_path / "whole.tar", {"a.txt": b"x" * 600, "b.txt": b"y" * 600}).read_bytes()
    bad = tmp_path / "bad.tar"
    cases = {
        "empty, 0 bytes": b"",
        r"compressed \(gzip\)": gzip.compress(whole),
        "no tar header at byte 0": b"no tar at all" * 100,
        "reaches beyond the end": whole[:1000],
        "stop without the mark": whole[: 3 * BLOCK],  # cut just where the second entry starts
        r"no tar header at byte 1,536": whole[: 3 * BLOCK] + b"\x01" + whole[3 * BLOCK + 1 :],
    }
    for fault, data in cases.items():
        bad.write_bytes(data)
        with pytest.raises(UserError, match=rf"bad\.tar: .*{fault}"):
            list(entries(bad))


@given(data=st.data())
@settings(max_examples=150, deadline=None)
def test_damaged_tars_raise_nothing_else(data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("damaged")
    form = data.draw(st.sampled_from([tarfile.GNU_FORMAT, tarfile.PAX_FORMAT]))
    whole = bytearray(
        write_tar(folder / "a.tar", {"a" * 120 + ".txt": b"one", "ü.jpg": b"two"}, format=form).read_bytes()
    )
    for _ in range(data.draw(st.integers(0, 6))):
        whole[data.draw(st.integers(0, 4095))] = data.draw(st.integers(0, 255))
    for start in range(0, 4096, BLOCK):  # half of them with sums that are right, so that what follows is read
        if data.draw(st.booleans()):
            whole[start + 148 : start + 156] = b" " * 8
            whole[start + 148 : start + 156] = f"{sum(whole[start : start + BLOCK]):06o}\0 ".encode()
    (folder / "a.tar").write_bytes(whole[: data.draw(st.integers(0, len(whole)))])
    try:
        found = list(entries(folder / "a.tar"))
    except UserError:
        return
    assert all(0 <= entry.offset + entry.size <= len(whole) for entry in found)


@given(data=st.binary(max_size=2000))
@settings(max_examples=100, deadline=None)
def test_any_bytes_raise_nothing_else(data, tmp_path_factory):
    path = tmp_path_factory.mktemp("noise") / "a.tar"
    path.write_bytes(io.BytesIO(data).getvalue())
    with pytest.raises(UserError):
        raise UserError(str(list(entries(path))))
