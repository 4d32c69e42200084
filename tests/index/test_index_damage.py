"""Folders that are damaged, half-written or no index: one sentence with the file, and nothing is lost."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from index_rows import MODEL, SPACES, points_of, rows_of, small_index

from equipoise.index import open_index
from equipoise.index import points as stored_points
from equipoise.index.making import Making, Rows
from equipoise.index.write import add, create, delete
from equipoise.io.digests import verifying
from equipoise.types import UserError

SPACE = SPACES["sphere"]


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def folder(tmp_path) -> Path:
    small_index(tmp_path / "index", SPACE, 30, Making(dtype="int8"))
    delete(tmp_path / "index", {"pic/3.jpg"})
    return tmp_path / "index"


def test_every_file_is_missed_and_every_changed_byte_noticed(folder):
    for name, content in files_of(folder).items():
        path = folder / name
        path.unlink()
        with pytest.raises(UserError, match=path.name):
            open_index(folder)
        path.write_bytes(content + b" ")
        if name != "index.json":
            with pytest.raises(UserError, match=path.name):
                open_index(folder)
        path.write_bytes(content)
    assert len(open_index(folder)) == 29


def test_an_index_that_is_not_verified_is_still_not_read_wrongly(folder):
    """Files cut in half, with --no-verify: refused by their size, or by what they hold."""
    names = ("points.bin", "scales.bin", "rows.bin", "records.bin", "records.spans", "fields.json", "column-00000.text")
    for name in names:
        path = next(folder.rglob(name))
        content = path.read_bytes()
        path.write_bytes(content[: len(content) // 2])
        with verifying(False), pytest.raises(UserError):
            use(folder)
        path.write_bytes(content)


def use(folder: Path) -> None:
    index = open_index(folder)
    index.search(points_of(SPACE, 1), 3, 'caption contains "1"')
    index.records(range(4, 30))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"format": 99}, "format 99"),
        ({"kind": "tree"}, "tree"),
        ({"segments": [{"name": "../other", "sha256": "0"}]}, "other"),
        ({"segments": 3}, "not understood"),
        ({"next_row": "many"}, "next_row"),
        ({"model": {}}, "not understood"),
        ({"space": {"name": "sphere", "dim": 8}}, "8"),
        ({"space": {"name": "my_module:Mine"}}, "my_module"),
        ({"recall": {"effort": -1}}, "recall"),
    ],
)
def test_a_manifest_that_is_not_understood_is_one_sentence(changes, said, folder):
    path = folder / "index.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
    with pytest.raises(UserError, match=said):
        open_index(folder)


def test_what_is_no_index_is_one_sentence(tmp_path):
    small_index(tmp_path / "photos", SPACE, 5)
    with pytest.raises(UserError, match=r"no index .did you mean .*photos"):
        open_index(tmp_path / "photo")
    (tmp_path / "photos" / "index.json").write_text("[1, 2")
    with pytest.raises(UserError, match=r"index\.json"):
        open_index(tmp_path / "photos")


def test_a_writer_that_fails_leaves_the_index_as_it_was(folder):
    def broken():
        yield rows_of(points_of(SPACE, 5, seed=6), 50)
        raise RuntimeError("killed")

    before = files_of(folder)
    with pytest.raises(RuntimeError, match="killed"):
        add(folder, broken())
    assert files_of(folder) == before
    with pytest.raises(RuntimeError, match="killed"):
        create(folder.parent / "new", SPACE, MODEL, broken())
    assert not (folder.parent / "new").exists()


def test_what_a_killed_writer_left_is_cleared_by_the_next(folder):
    (folder / "segment-00007").mkdir()
    (folder / "segment-00007" / "points.bin").write_bytes(b"half")
    (folder / "deleted-00009.bin").write_bytes(b"half")
    assert len(open_index(folder)) == 29
    add(folder, [rows_of(points_of(SPACE, 5, seed=6), 50)])
    assert len(open_index(folder)) == 34
    assert not (folder / "segment-00007").exists()
    assert not (folder / "deleted-00009.bin").exists()


def test_no_rows_wrong_widths_and_numbers_that_are_none(tmp_path):
    with pytest.raises(UserError, match="nothing to index"):
        create(tmp_path / "index", SPACE, MODEL, [])
    with pytest.raises(UserError, match=r"\[5, 8\].*16"):
        create(tmp_path / "index", SPACE, MODEL, [rows_of(torch.zeros(5, 8))])
    with pytest.raises(UserError, match="not finite"):
        create(tmp_path / "index", SPACE, MODEL, [rows_of(torch.full((5, 16), torch.nan))])
    with pytest.raises(UserError, match="too large for float16"):
        create(
            tmp_path / "index", SPACES["euclidean"], MODEL, [rows_of(torch.full((5, 16), 1e6))], Making(dtype="float16")
        )
    assert not (tmp_path / "index").exists()
    small_index(tmp_path / "index", SPACE, 5)
    index = open_index(tmp_path / "index")
    for k in (0, 10_001):
        with pytest.raises(UserError, match=f"k is {k}"):
            index.search(points_of(SPACE, 1), k)
    with pytest.raises(UserError, match="not finite"):
        index.search(torch.full((1, 16), torch.inf), 3)


def test_records_without_anything_known_and_side_data_that_json_lacks(tmp_path):
    from equipoise.index import Record

    odd = {"nan": float("nan"), "zero": "a\0b", "list": [float("inf"), {"x": (1, 2)}], "none": None}
    records = [Record("a"), Record("/home/me/b.jpg", ("b",), None, odd)]
    create(tmp_path / "index", SPACE, MODEL, [Rows(points_of(SPACE, 2), records, [None, None])])
    one, other = open_index(tmp_path / "index").records([0, 1])
    assert (one.caption, one.picture, dict(one.side)) == ("", None, {})
    assert other.side == {"nan": None, "zero": "ab", "list": [None, {"x": [1, 2]}], "none": None}
    assert (one.name, other.name) == ("a", "b.jpg")


def test_memory_that_is_let_go_of_changes_no_answer(folder, monkeypatch):
    queries = points_of(SPACE, 4, seed=3)
    before = open_index(folder).search(queries, 5)
    monkeypatch.setattr(stored_points, "LET_GO", 1)
    monkeypatch.setattr(stored_points, "TILE", 64)
    after = open_index(folder)
    for _ in range(2):
        assert torch.equal(after.search(queries, 5).rows, before.rows)
    assert torch.equal(after.points([4, 5]), open_index(folder).points([4, 5]))
