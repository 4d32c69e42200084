"""Columns that nobody has named: known names, what fields look like, what divides them, where pictures are."""

from __future__ import annotations

from pathlib import Path

import pytest
from some_files import jpeg

from equipoise.data.files.guess_columns import guess_columns
from equipoise.types import UserError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "photos").mkdir()
    for name in ("a.jpg", "b.JPG"):
        (tmp_path / "photos" / name).write_bytes(jpeg())
        (tmp_path / name).write_bytes(jpeg())
    return tmp_path


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [
        ("t.csv", "filepath,title\na.jpg,a cat", {"path": "filepath", "captions": "title"}),
        ("t.csv", "id,Caption,Image\n1,a cat,a.jpg", {"path": "Image", "captions": "Caption"}),
        ("t.csv", "text,image\nsee b.jpg,a.jpg", {"path": "image", "captions": "text"}),  # fields decide
        ("t.csv", "x,y,z\n7,b.JPG,a red cat", {"path": "y", "captions": "z"}),
        ("t.csv", "file_name\ttext\na.jpg\ta cat, red", {"path": "file_name", "captions": "text", "separator": "\t"}),
        (
            "t.csv", "image_name| comment_number| comment\na.jpg| 0| a cat",
            {"path": "image_name", "captions": " comment", "separator": "|"},
        ),
        ("t.txt", "image,caption\na.jpg,a cat", {"path": "image", "captions": "caption", "separator": ","}),
        (
            "t.csv", "image,caption_1,caption_2\na.jpg,a cat,cats",
            {"path": "image", "captions": ("caption_1", "caption_2")},
        ),
        ("t.jsonl", '{"img": "a.jpg", "sentences": ["a", "b"]}', {"path": "img", "captions": "sentences"}),
        (
            "t.json", '{"images": [{"id": 1, "file_name": "a.jpg"}], "annotations": [{"image_id": 1, "caption": "x"}]}',
            {"path": "file_name", "captions": "caption"},
        ),
    ],
)  # fmt: skip
def test_columns_are_found(folder: Path, name: str, text: str, found: dict[str, object]) -> None:
    (folder / name).write_text(text + "\n")
    assert guess_columns(folder / name, {}) == found


def test_what_is_given_is_not_guessed(folder: Path) -> None:
    (folder / "t.csv").write_text("x;y;z\na.jpg;b.JPG;a red cat\n")
    assert guess_columns(folder / "t.csv", {"path": "y"}) == {"captions": "z", "separator": ";"}
    given = {"path": "y", "captions": "x", "separator": ";"}
    assert guess_columns(folder / "t.csv", given) == {}


def test_pictures_in_a_folder_beside_the_table(folder: Path) -> None:
    (folder / "photos" / "c.jpg").write_bytes(jpeg())
    (folder / "t.csv").write_text("image,caption\nc.jpg,a cat\n")
    assert guess_columns(folder / "t.csv", {})["images"] == str(folder / "photos")
    assert "images" not in guess_columns(folder / "t.csv", {"images": "photos"})
    (folder / "t.csv").write_text("image,caption\nd.jpg,a cat\n")
    with pytest.raises(UserError, match=r'such as "d\.jpg", are not there; say which folder .*data\.images'):
        guess_columns(folder / "t.csv", {})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a.jpg,a cat\nb.JPG,a dog\n", "first line is no line of column names"),
        ("n,m\n1,2\n", 'no column of "n", "m" looks like paths of pictures; say which with --set data.path'),
        ("image,n\na.jpg,2\n", 'no column of "n" looks like captions'),
        ("url,text\nhttps://x.org/a.jpg,a cat\n", "web addresses, which are not fetched"),
        ("", "nothing in this file"),
        ("\ufeff\n", "there are no columns"),
    ],
)
def test_what_cannot_be_guessed_is_one_sentence(folder: Path, text: str, message: str) -> None:
    (folder / "t.csv").write_text(text)
    with pytest.raises(UserError, match=message):
        guess_columns(folder / "t.csv", {})


def test_columns_of_parquet(folder: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    columns = {"n": [1], "image": ["a.jpg"], "captions": [["a cat", "a tabby"]]}
    parquet.write_table(pyarrow.table(columns), folder / "t.parquet")
    assert guess_columns(folder / "t.parquet", {}) == {"path": "image", "captions": "captions"}
