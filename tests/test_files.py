from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from equipoise.files import replacing, write_text
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
    with pytest.raises(UserError, match=r"cannot write .*file/note\.txt: .*; free some space or choose another folder"):
        write_text(tmp_path / "file" / "note.txt", "text")
