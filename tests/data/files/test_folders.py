"""One folder a class."""

from __future__ import annotations

import os

import pytest
from some_files import jpeg

from equipoise.data.files import Folders
from equipoise.data.source import is_labelled
from equipoise.types import UserError


def test_labels_are_folders(tmp_path):
    for name in (
        "train/hot_dog/b.jpg",
        "train/hot_dog/a.JPEG",
        "train/cat/x.png",
        "train/cat/notes.txt",
        "train/.x/y.jpg",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(jpeg())
    source = Folders(test="train", root=str(tmp_path), templates=("a {}.", "{c}!")).build("test")
    assert is_labelled(source)
    assert source.class_names == ("cat", "hot dog")
    pairs = [source.pair(index) for index in range(len(source))]
    assert [(pair.key, pair.label) for pair in pairs] == [
        ("cat/x.png", "cat"), ("hot_dog/a.JPEG", "hot dog"), ("hot_dog/b.jpg", "hot dog"),
    ]  # fmt: skip
    assert pairs[1].captions == ("a hot dog.", "hot dog!")
    assert source.images(range(3), 8).shape == (3, 3, 8, 8)


def test_a_file_names_the_classes_of_folders(tmp_path):
    for folder in ("n02084071", "n02121808"):
        (tmp_path / "train" / folder).mkdir(parents=True)
        (tmp_path / "train" / folder / "a.jpg").write_bytes(jpeg())
    listed = tmp_path / "wnids.txt"
    listed.write_text("n02121808 house cat\nn02084071\tdog\nn01440764 tench\n")
    settings = Folders(test="train", root=str(tmp_path), templates=("a {}.",), class_names="wnids.txt")
    source = settings.build("test")
    assert source.class_names == ("dog", "house cat")
    pairs = [source.pair(index) for index in range(len(source))]
    assert [(pair.key, pair.label, pair.captions) for pair in pairs] == [
        ("n02084071/a.jpg", "dog", ("a dog.",)), ("n02121808/a.jpg", "house cat", ("a house cat.",)),
    ]  # fmt: skip
    for text, said in (
        ("n02084071 dog\n", 'no line for the folder "n02121808"'),
        ("n02084071 dog\nn02121808\n", 'the line "n02121808" has no name'),
        ("n02084071 dog\nn02121808 dog\n", 'the class "dog" is there twice'),
        ("", "no names of classes in this file"),
    ):
        listed.write_text(text)
        with pytest.raises(UserError, match=said):
            settings.build("test")
    listed.unlink()
    with pytest.raises(UserError, match=r"wnids\.txt: the names of classes cannot be read"):
        settings.build("test")


def test_held_out_folders_know_all_classes(tmp_path):
    for number in range(40):
        path = tmp_path / f"class{number % 2}" / f"{number}.jpg"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(jpeg(seed=number))
    settings = Folders(train=str(tmp_path), validation_share=0.2)
    with pytest.warns(UserWarning, match="held out"):
        train = settings.build("train")
    validation = settings.build("validation")
    assert train.class_names == validation.class_names == ("class0", "class1")
    assert len(train) + len(validation) == 40


def test_what_is_wrong_with_folders(tmp_path):
    with pytest.raises(UserError, match="there is no such folder"):
        Folders(test=str(tmp_path / "nowhere")).build("test")
    with pytest.raises(UserError, match="there are no folders in it"):
        Folders(test=str(tmp_path)).build("test")
    (tmp_path / "cat").mkdir()
    with pytest.raises(UserError, match="no usable record"):
        Folders(test=str(tmp_path)).build("test")
    (tmp_path / "a_b").mkdir()
    (tmp_path / "a b").mkdir()
    with pytest.raises(UserError, match='the class "a b" is there twice'):
        Folders(test=str(tmp_path)).build("test")
    with pytest.raises(UserError, match="no place for the class's name"):
        Folders(templates=("x",))
    with pytest.raises(UserError, match="templates is empty"):
        Folders(templates=())


def test_names_that_are_not_utf8_are_faults(tmp_path):
    for name in (b"cat/a.jpg", b"cat/b\xff.jpg", b"caf\xe9/c.jpg"):
        path = tmp_path / os.fsdecode(name)
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(jpeg())
    with pytest.warns(UserWarning, match=r"2 of the 3 records .* is not UTF-8 text"):
        source = Folders(test=str(tmp_path), max_bad=1.0).build("test")
    assert source.class_names == ("cat",)
    assert [source.pair(index).key for index in range(len(source))] == ["cat/a.jpg"]
    for fault in source.records.faults:
        str(fault).encode()  # can be written anywhere
