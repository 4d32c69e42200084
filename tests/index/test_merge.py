"""Segments made into one: the same rows, points, records and answers as before, without what was deleted."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from index_rows import SPACES, brute_force, points_of, rows_of, small_index

import equipoise.index.merge as module
from equipoise.cli import main
from equipoise.index import open_index
from equipoise.index.folder import FolderIndex
from equipoise.index.making import Making
from equipoise.index.merge import merge
from equipoise.index.write import add, delete
from equipoise.types import UserError


def many_segments(folder: Path, name: str = "sphere", making: Making | None = None) -> torch.Tensor:
    """200 rows in one segment, 30 more in five, some replaced and some deleted; gives all points by row."""
    space = SPACES[name]
    parts = [small_index(folder, space, 200, making)]
    for number in range(5):
        parts.append(points_of(space, 6, seed=20 + number))
        add(folder, [rows_of(parts[-1], first=200 + 6 * number)])
    parts.append(points_of(space, 3, seed=40))
    add(folder, [rows_of(parts[-1], first=10)], replace=True)
    assert delete(folder, {"pic/201.jpg", "pic/0.jpg"}) == 2
    return torch.cat(parts)


@pytest.mark.parametrize("dtype", ["float32", *(pytest.param(d, marks=pytest.mark.slow) for d in ("float16", "int8"))])
@pytest.mark.parametrize("name", SPACES)
def test_what_is_found_and_told_is_what_it_was(name, dtype, tmp_path):
    many_segments(tmp_path / "index", name, Making(dtype=dtype))
    before = open_index(tmp_path / "index")
    queries = points_of(SPACES[name], 9, seed=5)
    wheres = ("", 'year >= 2010 and kind = "photo"', 'key in ("pic/11.jpg", "pic/205.jpg")')
    found = [before.search(queries, 20, where) for where in wheres]
    rows = sorted(before.matching("").tolist())
    points, records = before.points(rows), before.records(rows)
    thumbs = [before.thumbnail(row) for row in rows]
    merged = merge(tmp_path / "index")
    assert (merged.segments, merged.dropped, merged.recall) == (7, 5, {})
    after = FolderIndex(tmp_path / "index")
    assert len(after.segments) == 1
    assert (len(after), after.modality, after.fields) == (len(before), before.modality, before.fields)
    assert sorted(after.matching("").tolist()) == rows
    assert torch.equal(after.points(rows), points)  # bit for bit
    assert after.records(rows) == records
    assert [after.thumbnail(row) for row in rows] == thumbs
    for where, one in zip(wheres, found, strict=True):
        again = after.search(queries, 20, where)
        assert torch.equal(again.rows, one.rows)
        torch.testing.assert_close(again.scores, one.scores, rtol=0, atol=1e-6)
    with pytest.raises(UserError, match="no row 201"):
        after.points([201])


def test_who_has_it_open_goes_on(tmp_path):
    many_segments(tmp_path / "index")
    opened, fresh = open_index(tmp_path / "index"), open_index(tmp_path / "index")
    queries = points_of(SPACES["sphere"], 3, seed=5)
    merge(tmp_path / "index")
    where = 'kind = "photo"'  # a column that is read now
    assert torch.equal(
        opened.search(queries, 9, where).rows, open_index(tmp_path / "index").search(queries, 9, where).rows
    )
    assert fresh.modality == {"image": 228}


def test_rows_go_on_from_where_they_were(tmp_path):
    points = many_segments(tmp_path / "index")
    merge(tmp_path / "index")
    newer = points_of(SPACES["sphere"], 4, seed=50)
    add(tmp_path / "index", [rows_of(newer, first=400)])
    index = open_index(tmp_path / "index")
    assert index.search(newer, 1).rows[:, 0].tolist() == [len(points) + n for n in range(4)]


def test_only_what_the_index_names_is_left_and_a_second_merge_writes_nothing(tmp_path):
    folder = tmp_path / "index"
    many_segments(folder)
    merge(folder)
    written = (folder / "index.json").read_bytes()
    assert merge(folder).segments == 1
    assert (folder / "index.json").read_bytes() == written
    assert [path.name for path in folder.glob("deleted-*")] == []
    assert len(list(folder.glob("segment-*"))) == 1


def test_a_merge_that_is_killed_leaves_the_index_as_it_was(tmp_path, monkeypatch):
    folder = tmp_path / "index"
    many_segments(folder)
    before = open_index(folder).search(points_of(SPACES["sphere"], 3, seed=5), 10)
    monkeypatch.setattr(module, "seal", lambda _: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        merge(folder)
    monkeypatch.undo()
    assert torch.equal(open_index(folder).search(points_of(SPACES["sphere"], 3, seed=5), 10).rows, before.rows)
    merge(folder)
    assert torch.equal(open_index(folder).search(points_of(SPACES["sphere"], 3, seed=5), 10).rows, before.rows)


def test_nothing_is_left_of_an_index_whose_rows_are_all_deleted(tmp_path):
    small_index(tmp_path / "index", SPACES["sphere"], 5)
    delete(tmp_path / "index", set(), "year > 0")
    assert merge(tmp_path / "index").dropped == 5
    index = open_index(tmp_path / "index")
    assert len(index) == 0
    assert (index.search(points_of(SPACES["sphere"], 2), 3).rows == -1).all()
    add(tmp_path / "index", [rows_of(points_of(SPACES["sphere"], 2))])
    assert len(open_index(tmp_path / "index")) == 2


@pytest.mark.parametrize("kind", ["ivf", "hnsw"])
def test_faiss_sees_all_points_and_its_recall_is_measured_anew(kind, tmp_path, monkeypatch):
    pytest.importorskip("faiss", reason="faiss is not installed: merged kinds of it are NOT tested")
    monkeypatch.setattr("equipoise.index.faiss_search.FEWEST", 150)
    monkeypatch.setattr("equipoise.index.folder.FEW", 10)
    space, folder = SPACES["sphere"], tmp_path / "index"
    points = many_segments(folder, making=Making(kind))
    merged = merge(folder)
    assert merged.recall["recall@10"] >= 0.95
    index = FolderIndex(folder)
    assert index.segments[0].search_file is not None
    assert index.manifest.recall == merged.recall
    alive = index.matching("")
    queries = points_of(space, 20, seed=5)
    _, order = brute_force(space, queries, points[torch.from_numpy(np.sort(alive))], 10)
    truth = torch.from_numpy(np.sort(alive))[order]
    found = index.search(queries, 10).rows
    share = np.mean([len(set(a.tolist()) & set(b.tolist())) / 10 for a, b in zip(found, truth, strict=True)])
    assert share >= 0.9


def test_the_command(tmp_path, capsys):
    folder = tmp_path / "index"
    many_segments(folder)
    assert main(["index", "merge", str(folder), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["segments"], told["dropped"], told["rows"]) == (7, 5, 228)
    assert main(["index", "merge", str(folder)]) == 0
    assert "nothing to merge" in capsys.readouterr().out
    for words, said in (
        ([str(tmp_path / "none")], "is no index"), (["postgresql://x@y/z"], "VACUUM"),
        ([str(folder), "--recall", "2"], "share"),
    ):  # fmt: skip
        assert main(["index", "merge", *words]) == 2
        assert said in capsys.readouterr().err
