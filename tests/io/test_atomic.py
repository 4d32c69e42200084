from __future__ import annotations

import os
import resource
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from equipoise.io.atomic import clear_leftovers, remove_folder, replacing, write_text
from equipoise.types import UserError


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def make_folder(path: Path, text: str) -> None:
    path.mkdir()
    (path / "a").write_text(text)


def test_text_takes_the_place_of_older_text(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "note.txt"
    write_text(path, "first\n")
    write_text(path, "zweite: ü\n")
    assert path.read_text(encoding="utf-8") == "zweite: ü\n"
    assert names(path.parent) == ["note.txt"]


def test_a_folder_takes_the_place_of_an_older_one(tmp_path: Path) -> None:
    make_folder(tmp_path / "model", "old")
    (tmp_path / "model" / "only in the old one").touch()
    with replacing(tmp_path / "model") as temporary:
        make_folder(temporary, "new")
        assert (tmp_path / "model" / "a").read_text() == "old"
    assert names(tmp_path) == ["model"]
    assert names(tmp_path / "model") == ["a"]
    assert (tmp_path / "model" / "a").read_text() == "new"


@pytest.mark.parametrize("failure", [RuntimeError("in the middle"), KeyboardInterrupt()])
def test_a_failure_in_the_middle_leaves_the_old_and_nothing_else(tmp_path: Path, failure: BaseException) -> None:
    make_folder(tmp_path / "model", "old")

    def replace() -> None:
        with replacing(tmp_path / "model") as temporary:
            make_folder(temporary, "half")
            raise failure

    with pytest.raises(type(failure)):
        replace()
    assert names(tmp_path) == ["model"]
    assert (tmp_path / "model" / "a").read_text() == "old"


def test_ctrl_c_between_the_two_renames_brings_the_old_folder_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_folder(tmp_path / "model", "old")
    rename = Path.rename

    def interrupted(path: Path, target: Path) -> Path:
        if path.name.endswith(".tmp"):
            raise KeyboardInterrupt
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", interrupted)
    with pytest.raises(KeyboardInterrupt), replacing(tmp_path / "model") as temporary:
        make_folder(temporary, "new")
    assert names(tmp_path) == ["model"]
    assert (tmp_path / "model" / "a").read_text() == "old"


def test_what_a_killed_process_left_is_no_obstacle(tmp_path: Path) -> None:
    make_folder(tmp_path / "model", "old")
    for ending in ("tmp", "old"):  # a process of the same number, which containers often have
        make_folder(tmp_path / f".model.{os.getpid()}.{ending}", "garbage")
    with replacing(tmp_path / "model") as temporary:
        make_folder(temporary, "new")
    assert names(tmp_path) == ["model"]
    assert (tmp_path / "model" / "a").read_text() == "new"


def test_a_full_disk_is_one_sentence_and_the_old_file_stays(
    tmp_path: Path, full_disk: Callable[[int], AbstractContextManager[None]]
) -> None:
    path = tmp_path / "note.txt"
    write_text(path, "old")
    with full_disk(100), pytest.raises(UserError) as caught:
        write_text(path, "x" * 1000)
    assert str(caught.value) == f"cannot write {path}: File too large; free some space or choose another folder"
    assert names(tmp_path) == ["note.txt"]
    assert path.read_text() == "old"


def test_a_file_where_a_folder_should_be_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match=r"cannot write .*file/note\.txt: "):
        write_text(tmp_path / "file" / "note.txt", "text")


def test_a_disk_that_refuses_is_one_sentence_about_the_whole(tmp_path):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, hard))

    def write() -> None:
        with replacing(tmp_path / "it") as temporary:
            temporary.mkdir()
            write_text(temporary / "inner", "x" * 100)

    try:
        with pytest.raises(UserError, match=r"cannot write \S*/it: File too large"):
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
