"""Pictures in folders, with texts beside them or without; and which kind of data a path is taken for."""

from __future__ import annotations

from pathlib import Path

import pytest
from some_files import jpeg, records, write_tar

from equipoise.data.files import ClassShards, Folders, PictureFolder, Shards, Table
from equipoise.data.files.infer_format import infer, looks_like_data, settings_for
from equipoise.types import UserError


def write(folder: Path, *names: str) -> Path:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(jpeg() if name.endswith("jpg") else f"told of {name}\nagain\n\n".encode())
    return folder


def test_texts_beside_pictures_are_their_captions(tmp_path: Path) -> None:
    write(tmp_path, "a.jpg", "a.txt", "in/b.jpg", "in/b.txt", "in/c.jpg", ".hidden/d.jpg", "e.txt")
    found = PictureFolder().records((str(tmp_path),))
    assert found.pair(0).captions == ("told of a.txt", "again")
    assert [found.key(index) for index in range(len(found))] == ["a.jpg", "in/b.jpg"]
    assert [(Path(fault.place).name, "no .txt beside" in fault.reason) for fault in found.faults] == [("c.jpg", True)]
    assert found.image(0) == jpeg()


def test_pictures_alone_have_no_captions(tmp_path: Path) -> None:
    write(tmp_path, "a.jpg", "in/b.jpg")
    source = PictureFolder(test=str(tmp_path)).build("test")
    assert [source.pair(index).captions for index in range(len(source))] == [(), ()]
    assert source.images([0, 1], 16).shape == (2, 3, 16, 16)
    few = PictureFolder(test=str(tmp_path / "*.jpg")).build("test")
    assert [few.pair(index).key for index in range(len(few))] == ["a.jpg"]


def test_what_a_path_is_taken_for(tmp_path: Path) -> None:
    write_tar(tmp_path / "shards" / "0.tar", records(2))
    write_tar(tmp_path / "labelled" / "0.tar", records(2))
    (tmp_path / "labelled" / "classnames.txt").write_text("cat\n")
    write(tmp_path, "classes/cat/a.jpg", "plain/a.jpg", "told/0/a.jpg", "told/0/a.txt", "meta/a.jpg")
    (tmp_path / "meta" / "metadata.csv").write_text("file_name,text\na.jpg,a cat\n")
    kinds = {
        "shards": Shards, "labelled": ClassShards, "classes": Folders, "plain": PictureFolder, "told": PictureFolder,
        "meta": Table, "plain/a.jpg": PictureFolder, "shards/{0..0}.tar": Shards, "plain/*.jpg": PictureFolder,
    }  # fmt: skip
    for name, kind in kinds.items():
        assert looks_like_data(str(tmp_path / name)), name
        assert type(settings_for(str(tmp_path / name))) is kind, name
    assert infer(str(tmp_path / "meta")).files == str(tmp_path / "meta" / "metadata.csv")


def test_what_is_no_data_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "empty" / "deep").mkdir(parents=True)
    (tmp_path / "model").mkdir()
    for name in ("model.safetensors", "config.toml"):
        (tmp_path / "model" / name).write_text("")
    for name, message in (
        ("empty", "neither shards"),
        ("model", "this is a model folder, and not data"),
        ("none.csv", "no such file"),
    ):
        with pytest.raises(UserError, match=message):
            infer(str(tmp_path / name))
    for name in ("a.zip", "pairs.csv.gz", "pairs.xlsx"):
        with pytest.raises(UserError, match="are not read; give shards"):
            looks_like_data(name)
