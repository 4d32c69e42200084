"""Pictures within Parquet files: bytes, {bytes, path}, rows of one picture, files that change."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import pytest
from some_files import jpeg

from equipoise.data.bad_records import BadRecord
from equipoise.data.files import Table, parquet_pictures
from equipoise.data.files.guess_columns import guess_columns
from equipoise.data.files.infer_format import settings_for
from equipoise.types import UserError

pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed: Parquet is NOT tested")

PICTURES = [jpeg(seed=number) for number in range(6)]


def write(path: Path, columns: dict[str, object], **options: object) -> Path:
    from pyarrow import parquet

    parquet.write_table(pyarrow.table(columns), path, **options)
    return path


def held(numbers: list[int], names: list[str | None]) -> list[dict[str, object]]:
    return [{"bytes": PICTURES[number], "path": name} for number, name in zip(numbers, names, strict=True)]


def read(file: Path, **options: object) -> list[tuple[bytes, tuple[str, ...]]]:
    found = Table(test=str(file), path="image", captions="text", **options).records((str(file),))
    return [(found.image(index), found.pair(index).captions) for index in range(len(found))]


@pytest.mark.parametrize("group", [1, 2, 100])
def test_rows_of_one_picture_are_joined_by_bytes_and_never_by_a_name_alone(group: int, tmp_path: Path) -> None:
    """Two pictures are called 0.jpg, as where a folder per class was packed."""
    image = held([0, 1, 0, 2], ["0.jpg", "0.jpg", None, "x/2.jpg"])
    file = write(tmp_path / "a.parquet", {"image": image, "text": list("abcd")}, row_group_size=group)
    assert read(file) == [(PICTURES[0], ("a", "c")), (PICTURES[1], ("b",)), (PICTURES[2], ("d",))]
    assert len(read(file, join="none")) == 4
    records = settings_for(str(file)).records((str(file),))
    assert [records.key(index) for index in range(3)] == ["a.parquet/1/0.jpg", "a.parquet/2/0.jpg", "a.parquet/4/2.jpg"]
    again = pickle.loads(pickle.dumps(records))  # for worker processes
    assert [again.read(index)[1] for index in (2, 0, 1)] == [PICTURES[2], PICTURES[0], PICTURES[1]]


def test_a_row_may_name_a_file_in_place_of_bytes(tmp_path: Path) -> None:
    (tmp_path / "5.jpg").write_bytes(PICTURES[5])
    image = [*held([0], ["0.jpg"]), {"bytes": None, "path": "5.jpg"}, {"bytes": None, "path": None}, None]
    file = write(tmp_path / "a.parquet", {"image": image, "text": list("abcd")})
    assert read(file) == [(PICTURES[0], ("a",)), (PICTURES[5], ("b",))]
    faults = Table(test=str(file), path="image", captions="text").records((str(file),)).faults
    assert [(fault.place.rpartition(" ")[2], fault.reason) for fault in faults] == [
        ("3", 'the column "image" is empty'), ("4", 'the column "image" is empty'),
    ]  # fmt: skip
    assert read(file, join="bytes") == read(file)


def test_bytes_without_a_name_and_a_damaged_picture(tmp_path: Path) -> None:
    image = [PICTURES[0], b"no picture", PICTURES[1]]
    file = write(tmp_path / "a.parquet", {"image": image, "text": list("abc")})
    with pytest.warns(UserWarning, match=r"1 of the 3 records .*a\.parquet, line 2: "):
        source = settings_for(str(file)).build("test")
    assert [source.pair(index).key for index in range(2)] == ["a.parquet/1", "a.parquet/3"]
    assert source.images([0, 1], 16).shape == (2, 3, 16, 16)


@pytest.mark.parametrize(
    ("columns", "chosen"),
    [
        ({"filename": ["a.jpg"], "image": held([0], [None]), "caption": ["a cat"]}, "image"),
        ({"jpg": [PICTURES[0]], "txt": ["a cat"]}, "jpg"),
        ({"sha": [b"123"], "path": ["a.jpg"], "caption": ["a cat"]}, "path"),
        ({"whatever": held([0], [None]), "caption": ["a cat"]}, "whatever"),
    ],
)
def test_which_column_holds_the_pictures(columns: dict[str, object], chosen: str, tmp_path: Path) -> None:
    (tmp_path / "a.jpg").write_bytes(PICTURES[0])
    assert guess_columns(write(tmp_path / "a.parquet", columns), {})["path"] == chosen


def test_few_row_groups_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write(tmp_path / "a.parquet", {"image": PICTURES, "text": list("abcdef")}, row_group_size=1)
    monkeypatch.setattr(parquet_pictures, "KEPT", 2 * max(map(len, PICTURES)) + 100)
    records = Table(test=str(file), path="image", captions="text").records((str(file),))
    for index in (0, 5, 2, 0, 3, 3, 1):
        assert records.image(index) == PICTURES[index]
    assert 1 <= len(parquet_pictures._cached_groups()._columns) <= 2


def test_mistakes_are_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write(tmp_path / "a.parquet", {"image": PICTURES[:2], "text": ["a", "b"]})
    with pytest.raises(UserError, match=r'a\.parquet, line 1: the column "image" holds pictures'):
        Table(test=str(file), path="text", captions="image").records((str(file),))
    records = Table(test=str(file), path="image", captions="text").records((str(file),))
    with monkeypatch.context() as patch:
        patch.setattr(parquet_pictures, "LARGEST", 10)
        with pytest.raises(BadRecord, match=r"a\.parquet, line 1: the image has .* bytes"):
            records.image(0)
    write(file, {"image": PICTURES[2:4], "text": ["a", "b"]})
    os.utime(file, ns=(1, 1))
    with pytest.raises(UserError, match=r"a\.parquet: this file has changed"):
        records.image(0)
    file.unlink()
    with pytest.raises(UserError, match=r"a\.parquet: this file cannot be read"):
        records.image(0)
