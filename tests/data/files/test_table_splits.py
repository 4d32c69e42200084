"""Tables that say which split a row is of, and Karpathy's files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from some_files import jpeg

from equipoise.data.files import Table
from equipoise.data.files.guess_columns import guess_columns
from equipoise.types import UserError

SPLITS = ("train", "restval", "val", "test")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "images" / "val2014").mkdir(parents=True)
    for number in range(8):
        (tmp_path / "images" / "val2014" / f"{number}.jpg").write_bytes(jpeg(seed=number))
    return tmp_path


def karpathy(count: int = 8, **changes: Any) -> dict[str, Any]:
    """As dataset_coco.json is; splits come in turn."""
    images = [
        {
            "filepath": "val2014", "filename": f"{number}.jpg", "imgid": number, "cocoid": 100 + number,
            "split": SPLITS[number % 4], "sentids": [2 * number, 2 * number + 1],
            "sentences": [{"tokens": ["a"], "raw": f"{way} cat {number}", "imgid": number} for way in ("A", "One")],
            **changes,
        }
        for number in range(count)
    ]  # fmt: skip
    return {"images": images, "dataset": "coco"}


def write(path: Path, content: Any) -> Path:
    path.write_text(json.dumps(content))
    return path


def keys(settings: Table, split: str) -> list[str]:
    source = settings.build(split)
    return [source.pair(index).key for index in range(len(source))]


def table(file: Path, **options: str) -> Table:
    return Table(**{"train": str(file), **guess_columns(file, {}), **options})


def test_karpathys_splits(folder: Path) -> None:
    file = write(folder / "dataset_coco.json", karpathy())
    found = guess_columns(file, {})
    assert found == {"path": "file_name", "captions": "caption", "split": "split", "images": str(folder / "images")}
    settings = table(file)
    assert keys(settings, "train") == [f"val2014/{number}.jpg" for number in (0, 1, 4, 5)]
    assert keys(settings, "validation") == ["val2014/2.jpg", "val2014/6.jpg"]
    assert keys(settings, "test") == ["val2014/3.jpg", "val2014/7.jpg"]
    assert settings.build("test").pair(0).captions == ("A cat 3", "One cat 3")
    assert len(settings.records((str(file),))) == 8


def test_a_file_without_a_folder_for_each_picture(folder: Path) -> None:
    """As dataset_flickr30k.json is."""
    content = karpathy()
    for image in content["images"]:
        del image["filepath"]
    settings = table(write(folder / "images" / "dataset_flickr30k.json", content))
    assert keys(settings, "validation") == ["2.jpg", "6.jpg"]


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        ({"images": [{"sentences": []}]}, 'entry 0 of "images" has no "filename"'),
        (karpathy(sentences=[{"tokens": []}]), 'entry 0 of "images" has "sentences" without "raw"'),
        (karpathy(sentences="a cat"), '"sentences" without "raw"'),
    ],
)
def test_another_form_is_one_sentence(content: Any, fault: str, folder: Path) -> None:
    file = write(folder / "dataset.json", content)
    with pytest.raises(UserError, match=fault) as error:
        guess_columns(file, {})
    assert str(file) in str(error.value)


def rows_of(folder: Path, *splits: str) -> Path:
    lines = [f"images/val2014/{number}.jpg,cat {number},{split}" for number, split in enumerate(splits)]
    (folder / "t.csv").write_text("\n".join(["path,caption,split", *lines]))
    return folder / "t.csv"


def test_a_column_of_any_table_and_splits_that_are_not_there(folder: Path) -> None:
    file = rows_of(folder, *["train"] * 5, "dev", "Valid")
    settings = table(file, validation_share=0.5)
    assert len(keys(settings, "train")) == 5
    with pytest.warns(UserWarning, match="2 validation records serve as the test"):
        assert keys(settings, "test") == keys(settings, "validation")
    file = rows_of(folder, *["train"] * 8)
    settings = table(file, validation_share=0.5)
    with pytest.warns(UserWarning, match="held out"):
        kept = keys(settings, "train")
    assert sorted([*kept, *keys(settings, "validation")]) == sorted(f"images/val2014/{n}.jpg" for n in range(8))
    whole = table(file, train="", test=str(file))
    assert len(keys(whole, "test")) == 8
    file = rows_of(folder, "val", "test")
    with pytest.raises(UserError, match='split "train", only of test and validation'):
        table(file).build("train")


def test_the_same_picture_in_two_splits_stays_in_both(folder: Path) -> None:
    (folder / "t.csv").write_text(
        "path,caption,split\nimages/val2014/0.jpg,a,train\nimages/val2014/0.jpg,b,test\nimages/val2014/0.jpg,c,train\n"
    )
    settings = table(folder / "t.csv", validation=str(folder / "t.csv"))
    assert settings.build("test").pair(0).captions == ("b",)


def test_a_split_of_no_known_name(folder: Path) -> None:
    file = rows_of(folder, "train", "train", "extra", "test", "val", "train")
    assert "split" not in guess_columns(file, {})
    found = Table(train=str(file), path="path", captions="caption", split="split").records((str(file),))
    assert [fault.place.rpartition(" ")[2] for fault in found.faults] == ["4"]
    assert "'extra'" in found.faults[0].reason
