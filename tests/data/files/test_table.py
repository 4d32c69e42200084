"""Tables of pictures: columns by name, captions in several ways, rows that are bad, files that are no tables."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from some_files import jpeg

from equipoise.data.files import Table
from equipoise.data.files.captions import in_windows
from equipoise.types import UserError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "images").mkdir()
    for number in range(3):
        (tmp_path / "images" / f"{number}.jpg").write_bytes(jpeg(seed=number))
    return tmp_path


def read(file: Path, **options: object) -> list[tuple[str, tuple[str, ...], str | None]]:
    found = Table(test=str(file), **options).records((str(file),))
    return [(pair.key, pair.captions, pair.label) for pair in map(found.pair, range(len(found)))]


def test_csv(folder):
    (folder / "a.csv").write_text('title,filepath\n"a cat, ""sitting""",images/0.jpg\n"two\nlines",images/1.jpg\n')
    assert read(folder / "a.csv") == [
        ("images/0.jpg", ('a cat, "sitting"',), None),
        ("images/1.jpg", ("two lines",), None),
    ]
    source = Table(test="a.csv", root=str(folder)).build("test")
    assert source.encoded(1).data == jpeg(seed=1)
    assert source.images([0, 1], 16).shape == (2, 3, 16, 16)


def test_columns_by_name_several_captions_and_a_label(folder):
    (folder / "a.tsv").write_text("file\ten\tde\tkind\nimages/0.jpg\tone; two\tdrei\tcat\nimages/1.jpg\tfour\t\t\n")
    options = {"path": "file", "captions": ("en", "de"), "caption_separator": ";", "label": "kind"}
    assert read(folder / "a.tsv", **options) == [
        ("images/0.jpg", ("one", "two", "drei"), "cat"),
        ("images/1.jpg", ("four",), None),
    ]


def test_where_paths_start(folder):
    (folder / "tables").mkdir()
    (folder / "tables" / "a.csv").write_text("filepath|title\n0.jpg|a cat\n")
    settings = Table(test="tables/a.csv", root=str(folder), images="images", separator="|")
    assert settings.build("test").encoded(0).data == jpeg()
    with pytest.raises(UserError, match="no usable record"), pytest.warns(UserWarning, match=r"0\.jpg cannot be read"):
        Table(test="tables/a.csv", root=str(folder), separator="|", max_bad=1.0).build("test")


def test_parquet(folder):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    columns = {"filepath": ["images/0.jpg", "images/1.jpg", None], "title": ["a cat", None, "x"], "n": [1, 2, 3]}
    parquet.write_table(pyarrow.table(columns), folder / "a.parquet")
    found = Table(test=str(folder / "a.parquet")).records((str(folder / "a.parquet"),))
    assert [found.pair(index).captions for index in range(len(found))] == [("a cat",)]
    assert [fault.reason for fault in found.faults] == ["the caption is empty", 'the column "filepath" is empty']
    assert found.faults[0].place.endswith("a.parquet, line 2")
    with pytest.raises(UserError, match='the column "n" holds int64, not text'):
        read(folder / "a.parquet", captions="n")
    with pytest.raises(UserError, match="no column \"x\"; the columns are 'filepath', 'title', 'n'"):
        read(folder / "a.parquet", captions="x")
    (folder / "b.parquet").write_bytes((folder / "a.parquet").read_bytes()[:200])
    with pytest.raises(UserError, match=r"b\.parquet: this cannot be read as Parquet"):
        read(folder / "b.parquet")


def test_bad_rows_are_named_by_their_line(folder):
    (folder / "a.csv").write_bytes(
        b"filepath,title\nimages/0.jpg,good\n,no path\nimages/0.jpg\nimages/0.jpg,caf\xe9\n\nimages/0.jpg, \n"
    )
    found = Table(test="a.csv").records((str(folder / "a.csv"),))
    assert len(found) == 1
    assert [(fault.place.rpartition("line ")[2], fault.reason) for fault in found.faults] == [
        ("3", 'the column "filepath" is empty'),
        ("4", "the caption is empty"),
        ("5", 'the caption is not UTF-8 text (in Windows-1252 it is "café"); save the file as UTF-8'),
        ("7", "the caption is empty"),
    ]


def test_pictures_that_are_missing_or_no_files(folder):
    (folder / "a.csv").write_bytes(
        b"filepath,title\nimages/0.jpg,good\nnowhere.jpg,a\n/dev/zero,b\nimages,c\n"
        + b"x" * 5000
        + b",d\nx\xff.jpg,e\n"
    )
    with pytest.warns(UserWarning, match=r"5 of the 6 records .*a\.csv, line 7: the column .filepath. is not UTF-8"):
        source = Table(test=str(folder / "a.csv"), max_bad=1.0).build("test")
    assert len(source) == 1
    reasons = " ".join(fault.reason for fault in source.records.faults)
    for part in (
        r"nowhere.jpg cannot be read (No such file",
        "/dev/zero cannot be read (it is not a file)",
        "too long",
    ):
        assert part in reasons


OPEN = {
    "to the end": ('a.jpg,"an open quote', ""),
    "to a field in quotes": ('a.jpg,"an open quote', 'b.jpg,"a cat, sitting"'),
    "to a field that ends in a quote": ('a.jpg,"an open quote', 'b.jpg,a pipe of 5"'),
    "to another open quote": ('a.jpg,"an open quote', 'b.jpg,"'),
}


@pytest.mark.parametrize("case", OPEN)
@pytest.mark.parametrize(("separator", "ending"), [(",", "csv"), ("\t", "tsv")])
def test_an_open_quote_swallows_no_rows(case, separator, ending, folder):
    first, last = (line.replace(",", separator) for line in OPEN[case])
    some = [f"images/{number}.jpg{separator}a cat" for number in range(500)]
    lines = [f"filepath{separator}title", *some[:19], first, *some[19:], last, *some]
    (folder / f"a.{ending}").write_text("\n".join(lines) + "\n")
    with pytest.raises(UserError, match=rf"a\.{ending}, line 21: this table cannot be read .*; close the quote"):
        read(folder / f"a.{ending}")


def test_an_open_quote_where_the_path_comes_last(folder):
    (folder / "a.csv").write_text('title,filepath\none,0.jpg\n"open,1.jpg\na pipe of 5",2.jpg\nfour,3.jpg\n')
    with pytest.raises(UserError, match=r"a\.csv, line 3: "):
        read(folder / "a.csv")


@pytest.mark.parametrize(
    ("field", "caption"),
    [
        ('"two\nlines, and ""quotes"", and\n\nmore, and a.jpg"', 'two lines, and "quotes", and more, and a.jpg'),
        ('"Windows\r\nlines"', "Windows lines"),
        ('"a b"', "a b"),
        ('a "b" c', 'a "b" c'),
        ('"so" he said', "so he said"),  # loose, but all of it is in its row
        ('5" wide', '5" wide'),
    ],
)
def test_legal_quotes_stay_legal(field, caption, folder):
    (folder / "a.csv").write_text(f"filepath,title\n0.jpg,{field}\n1.jpg,next\n", newline="")
    assert read(folder / "a.csv") == [("0.jpg", (caption,), None), ("1.jpg", ("next",), None)]


def test_half_characters_spoil_their_row(folder):
    (folder / "a.csv").write_bytes(b"filepath,title,kind\n0.jpg,a,caf\xe9\n1.jpg,b,cat\n")
    found = Table(test="a.csv", label="kind").records((str(folder / "a.csv"),))
    assert [found.pair(index).label for index in range(len(found))] == ["cat"]
    told = 'the column "kind" is not UTF-8 text (in Windows-1252 it is "café"); save the file as UTF-8'
    assert [fault.reason for fault in found.faults] == [told]


def test_a_table_in_another_encoding_says_so_at_once(folder):
    (folder / "a.csv").write_bytes("filepath,title\nimages/0.jpg,café\n".encode("cp1252"))
    with (
        pytest.raises(UserError, match=r'no usable record .*line 2: .* \(in Windows-1252 it is "café"\)'),
        pytest.warns(UserWarning, match="1 of the 1 records"),
    ):
        Table(test=str(folder / "a.csv"), max_bad=1.0).build("test")


@pytest.mark.parametrize(("text", "read"), [("\udc81", ""), ("half \ud800", ""), ("\udc93a\udc94", "“a”")])
def test_what_reads_as_windows_1252_is_shown(text: str, read: str):
    assert in_windows(text) == (f' (in Windows-1252 it is "{read}"); save the file as UTF-8' if read else "")


def test_a_picture_too_large_is_not_read(folder):
    (folder / "a.csv").write_text("filepath,title\nbig.jpg,a\nimages/0.jpg,b\n")
    with (folder / "big.jpg").open("wb") as file:
        file.truncate(3 << 30)  # sparse
    with pytest.warns(UserWarning, match=r"line 2: the image .*big\.jpg cannot be read \(it has 3,221,225,472 bytes"):
        assert len(Table(test=str(folder / "a.csv")).build("test")) == 1


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (
            b"filepath,text\n",
            r"a\.csv: there is no column \"title\"; the columns are 'filepath', 'text'; name the right",
        ),
        (b"filepath\ttitle\n", r"no column \"filepath\".* looks as if another data\.separator"),
        (b"", 'no column "filepath"; the columns are none'),
        (b'filepath,title\na.jpg,"' + b"x" * (1 << 21), r"a\.csv, line \d+: this table cannot be read"),
    ],
)
def test_what_is_no_such_table(content, fault, folder):
    (folder / "a.csv").write_bytes(content)
    with pytest.raises(UserError, match=fault):
        read(folder / "a.csv")


def test_settings_without_sense(folder):
    (folder / "a.xls").write_text("x")
    with pytest.raises(UserError, match=r"a\.xls: this is no \.csv, \.tsv, \.parquet, \.jsonl or \.json"):
        read(folder / "a.xls")
    with pytest.raises(UserError, match="captions names no column"):
        Table(captions=())
    with pytest.raises(UserError, match='separator is "ab"'):
        Table(separator="ab")


@given(content=st.binary(max_size=400))
@settings(max_examples=150, deadline=None)
def test_any_bytes_raise_nothing_else(content, tmp_path_factory):
    path = tmp_path_factory.mktemp("noise") / "a.csv"
    path.write_bytes(b"filepath,title\na.jpg,x\n" + content)
    try:
        found = Table(test=str(path)).records((str(path),))
        assert all(found.pair(index).captions for index in range(len(found)))
    except UserError:
        pass


@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_damaged_parquet_raises_nothing_else(data, tmp_path_factory):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    path = tmp_path_factory.mktemp("noise") / "a.parquet"
    parquet.write_table(pyarrow.table({"filepath": ["a.jpg"] * 9, "title": ["x"] * 9}), path)
    whole = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(0, 5))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(whole[: data.draw(st.integers(0, len(whole)))])
    with suppress(UserError):
        Table(test=str(path)).records((str(path),))


ROWS = "filepath,title\nimages/0.jpg,one\nimages/1.jpg,two\n./images/0.jpg,three\nimages/2.jpg,four\nimages/0.jpg,one\n"


def test_rows_of_one_picture_are_one_record(folder):
    (folder / "a.csv").write_text(ROWS)
    (folder / "images" / "2.jpg").write_bytes((folder / "images" / "1.jpg").read_bytes())
    first, others = ("images/0.jpg", ("one", "three", "one"), None), ("images/1.jpg", "images/2.jpg")
    assert read(folder / "a.csv") == [first, (others[0], ("two",), None), (others[1], ("four",), None)]
    assert read(folder / "a.csv", join="bytes") == [first, (others[0], ("two", "four"), None)]
    assert [captions for _, captions, _ in read(folder / "a.csv", join="none")] == [
        ("one",), ("two",), ("three",), ("four",), ("one",),
    ]  # fmt: skip
    with pytest.raises(UserError, match="join is"):
        Table(join="key")


def test_rows_with_other_labels_stay_apart_and_missing_files_are_no_copies(folder):
    (folder / "a.csv").write_text("filepath,title,kind\nimages/0.jpg,a,x\nimages/0.jpg,b,y\nno.jpg,c,x\nnor.jpg,d,x\n")
    assert [captions for _, captions, _ in read(folder / "a.csv", label="kind", join="bytes")] == [
        ("a",), ("b",), ("c",), ("d",),
    ]  # fmt: skip


def test_no_picture_is_in_training_and_in_validation(folder):
    rows = [f"images/{number % 3}.jpg,caption {number}" for number in range(30)]
    (folder / "a.csv").write_text("\n".join(["filepath,title", *rows]))
    for number in range(3, 40):
        (folder / "images" / f"{number}.jpg").write_bytes(jpeg(seed=number))
        rows += [f"images/{number}.jpg,caption {number} told in way {way}" for way in range(3)]
    (folder / "a.csv").write_text("\n".join(["filepath,title", *rows]))
    settings = Table(train=str(folder / "a.csv"), validation_share=0.3)
    with pytest.warns(UserWarning, match="held out"):
        train, validation = settings.build("train"), settings.build("validation")
    keys = [{source.pair(index).key for index in range(len(source))} for source in (train, validation)]
    assert not keys[0] & keys[1]
    assert len(keys[0] | keys[1]) == len(train) + len(validation) == 40


def test_json_lines_and_lists(folder):
    rows = [{"filepath": "images/0.jpg", "title": "a cat"}, {"filepath": "images/1.jpg", "title": ["one", "two"]}]
    (folder / "a.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n\n")
    (folder / "a.json").write_text(json.dumps(rows))
    expected = [("images/0.jpg", ("a cat",), None), ("images/1.jpg", ("one", "two"), None)]
    assert read(folder / "a.jsonl") == read(folder / "a.json") == expected
    with pytest.raises(UserError, match="no column \"x\"; the columns are 'filepath', 'title'"):
        read(folder / "a.jsonl", captions="x")


def coco(**changes: object) -> str:
    table = {
        "images": [{"id": 7, "file_name": "images/0.jpg"}, {"id": 8, "file_name": "images/1.jpg"}],
        "annotations": [
            {"image_id": 8, "caption": "a cat"},
            {"image_id": 7, "caption": "a dog"},
            {"image_id": 8, "caption": "a tabby"},
        ],
    }
    return json.dumps({**table, **changes})


def test_captions_of_mscoco(folder):
    columns = {"path": "file_name", "captions": "caption"}
    (folder / "a.json").write_text(coco())
    assert read(folder / "a.json", **columns) == [
        ("images/0.jpg", ("a dog",), None),
        ("images/1.jpg", ("a cat", "a tabby"), None),
    ]
    (folder / "a.json").write_text(coco(annotations=[{"image_id": 8, "caption": "x"}]))
    found = Table(test="a.json", **columns).records((str(folder / "a.json"),))
    assert [fault.reason for fault in found.faults] == ["the caption is empty"]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.jsonl", '{"filepath": "a.jpg"\n', "a.jsonl, line 1: this is not JSON"),
        ("a.jsonl", '{"filepath": "a.jpg", "title": "x"}\n[1]\n', "a.jsonl, line 2: this is no object"),
        ("a.json", "[1, 2]", "holds no objects"),
        ("a.json", '{"images": []}', 'has no list "annotations"'),
        ("a.json", coco(annotations=[{"image_id": 9, "caption": "x"}]), "image_id 9, which"),
        ("a.json", coco(annotations=[{"image_id": 8, "category_id": 3}]), 'has no "caption"'),
        ("a.json", "[" * 100_000, "cannot read"),
    ],
)
def test_json_that_is_no_table(folder, name, text, message):
    (folder / name).write_text(text)
    with pytest.raises(UserError, match=message):
        read(folder / name)


def test_parquet_with_lists_of_captions(folder):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    columns = {"filepath": ["images/0.jpg", "images/1.jpg"], "title": [["a", "b"], []]}
    parquet.write_table(pyarrow.table(columns), folder / "a.parquet")
    found = Table(test="a.parquet").records((str(folder / "a.parquet"),))
    assert [found.pair(index).captions for index in range(len(found))] == [("a", "b")]
    assert [fault.reason for fault in found.faults] == ["the caption is empty"]
