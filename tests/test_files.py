"""Files are whole or not there, whatever stops their writer."""

from __future__ import annotations

import os
import resource
from pathlib import Path

import pytest

from equipoise.files import clear_leftovers, remove_folder, replacing, write_text
from equipoise.types import UserError


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_folder_takes_the_place_of_another(tmp_path):
    for word in ("old", "new"):
        with replacing(tmp_path / "it") as temporary:
            temporary.mkdir()
            write_text(temporary / "word", word)
    assert (tmp_path / "it" / "word").read_text() == "new"
    assert names(tmp_path) == ["it"]


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_an_error_leaves_what_was_there(tmp_path, error):
    write_text(tmp_path / "it", "old")

    def write() -> None:
        with replacing(tmp_path / "it") as temporary:
            temporary.write_text("new")
            raise error

    with pytest.raises(error):
        write()
    assert (tmp_path / "it").read_text() == "old"
    assert names(tmp_path) == ["it"]


def test_a_disk_that_refuses_is_one_sentence_about_the_whole(tmp_path):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, hard))

    def write() -> None:
        with replacing(tmp_path / "it") as temporary:
            temporary.mkdir()
            write_text(temporary / "inner", "x" * 100)

    try:
        with pytest.raises(UserError, match=r"cannot write \S*/it: File too large; free some space"):
            write()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert names(tmp_path) == []


def test_leftovers_of_a_killed_writer_are_cleared(tmp_path):
    for name in (".step-00000004.77.tmp", ".best.77.tmp"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "half").touch()
    for name in ("tokenizer.json.77.tmp", "mine.tmp", ".hidden", "notes.2024.txt"):
        (tmp_path / name).touch()
    clear_leftovers(tmp_path)
    assert names(tmp_path) == [".hidden", "mine.tmp", "notes.2024.txt"]
    clear_leftovers(tmp_path / "not there")


@pytest.mark.parametrize("replaced", [True, False])
def test_a_folder_killed_between_two_names_comes_back(tmp_path, replaced):
    (tmp_path / ".best.77.old").mkdir()
    (tmp_path / ".best.77.old" / "word").write_text("old")
    (tmp_path / ".best.77.tmp").mkdir()
    if replaced:
        (tmp_path / ".best.77.tmp").rename(tmp_path / "best")
        (tmp_path / "best" / "word").write_text("new")
    clear_leftovers(tmp_path)
    assert names(tmp_path) == ["best"]
    assert (tmp_path / "best" / "word").read_text() == ("new" if replaced else "old")


def test_a_removed_folder_is_gone_from_the_first_moment(tmp_path):
    (tmp_path / "it" / "inner").mkdir(parents=True)
    remove_folder(tmp_path / "it")
    assert names(tmp_path) == []


def test_bytes_are_synced_before_the_name_and_the_name_after(tmp_path, monkeypatch):
    seen = []
    sync = os.fsync
    monkeypatch.setattr(os, "fsync", lambda handle: (seen.append(os.readlink(f"/proc/self/fd/{handle}")), sync(handle)))
    with replacing(tmp_path / "it") as temporary:
        temporary.mkdir()
        (temporary / "inner").write_text("x")
    assert [Path(path).name for path in seen] == ["inner", temporary.name, tmp_path.name]
