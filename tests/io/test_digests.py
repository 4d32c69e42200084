from __future__ import annotations

import hashlib
import json
import random
import subprocess
from pathlib import Path

import pytest

from equipoise.io.digests import (
    DIGESTS,
    file_digest,
    read_digests,
    renew_digest,
    require_intact,
    verifying,
    write_digests,
)
from equipoise.types import UserError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("a.json", "b.bin"):
        (tmp_path / name).write_bytes(f"this is {name}".encode())
    write_digests(tmp_path, ("a.json", "b.bin", "not there"), 7)
    return tmp_path


def test_a_small_files_digest_is_what_other_programs_say(folder: Path) -> None:
    said = subprocess.run(["sha256sum", folder / "a.json"], capture_output=True, text=True, check=True).stdout
    assert (
        json.loads((folder / DIGESTS).read_text())["sha256"]["a.json"]
        == said.split()[0]
        == file_digest(folder / "a.json")
    )


@pytest.fixture
def part(monkeypatch: pytest.MonkeyPatch) -> int:
    """Parts of few bytes, so that a small file has several."""
    monkeypatch.setattr("equipoise.io.digests.PART", 1000)
    return 1000


def test_a_large_files_digest_is_that_of_its_parts(tmp_path: Path, part: int) -> None:
    content = random.Random(0).randbytes(2 * part + 1)
    for size in (0, 1, part, part + 1, 2 * part, 2 * part + 1):
        (tmp_path / "file").write_bytes(content[:size])
        digests = [hashlib.sha256(content[start : min(start + part, size)]).digest() for start in range(0, size, part)]
        whole = hashlib.sha256(b"".join(digests) if size > part else content[:size])
        assert file_digest(tmp_path / "file") == whole.hexdigest()


def test_every_byte_of_every_part_counts(tmp_path: Path, part: int) -> None:
    content = bytearray(3 * part)
    digests = set()
    for place in range(len(content)):
        content[place] ^= 1
        if place % 97 == 0 or place % part in (0, part - 1):
            (tmp_path / "file").write_bytes(content)
            digests.add(file_digest(tmp_path / "file"))
    assert len(digests) == len([place for place in range(3 * part) if place % 97 == 0 or place % part in (0, part - 1)])


def test_what_was_written_is_intact_and_the_same_every_time(folder: Path) -> None:
    before = (folder / DIGESTS).read_bytes()
    require_intact(folder, ("a.json", "b.bin", "not there"))
    write_digests(folder, ("b.bin", "a.json"), 7)
    assert (folder / DIGESTS).read_bytes() == before
    stored = read_digests(folder)
    assert stored is not None
    assert (stored.step, sorted(stored.sha256)) == (7, ["a.json", "b.bin"])


def test_changed_missing_and_added_files_are_told(folder: Path) -> None:
    (folder / "c").touch()
    (folder / "a.json").write_bytes(b"this is a.jsoo")
    (folder / "b.bin").unlink()
    for name, what in (("a.json", "was changed"), ("b.bin", "is missing"), ("c", "is not among")):
        with pytest.raises(UserError, match=rf"{folder / name} {what}.*--no-verify"):
            require_intact(folder, [name])
        with verifying(False):
            require_intact(folder, [name])
    with verifying(False), verifying(True):
        require_intact(folder, ["a.json"])  # who asked for nothing to be verified is not overruled


def test_a_file_that_is_meant_to_change_is_noted(folder: Path) -> None:
    (folder / "a.json").write_text("other")
    renew_digest(folder, "a.json")
    require_intact(folder, ["a.json", "b.bin"])
    renew_digest(folder.parent, folder.name)  # nothing is made where there are none
    assert not (folder.parent / DIGESTS).exists()


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "3", "null", "{}", '{"step": "x", "sha256": {}}', '{"step": 1, "sha256": {"a.json": 3}}',
             '{"step": 1, "sha256": {"a.json": "12"}}', '{"step": 1, "sha256": []}', "[" * 100_000, "\xff"]
)  # fmt: skip
def test_damaged_digests_are_one_sentence(folder: Path, text: str) -> None:
    (folder / DIGESTS).write_bytes(text.encode("latin-1"))
    with pytest.raises(UserError, match=rf"cannot read {folder / DIGESTS}") as caught:
        require_intact(folder, ["a.json"])
    assert "\n" not in str(caught.value)


def test_a_folder_of_before_is_noted_once(folder: Path, recwarn: pytest.WarningsRecorder) -> None:
    (folder / DIGESTS).unlink()
    for _ in range(3):
        require_intact(folder, ["a.json"])
    assert [str(folder) in str(found.message) for found in recwarn] == [True]
