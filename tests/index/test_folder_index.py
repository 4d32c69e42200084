"""The index in a folder: exact search beside a whole sort in float64, rows, filters, changes."""

from __future__ import annotations

import pytest
import torch
from index_rows import MODEL, SPACES, brute_force, points_of, rows_of, small_index

from equipoise.index import open_index, require_same_model
from equipoise.index.making import Making
from equipoise.index.write import add, delete
from equipoise.types import UserError


@pytest.mark.parametrize("name", SPACES)
def test_exact_search_finds_what_a_whole_sort_finds(name, tmp_path):
    space = SPACES[name]
    points = small_index(tmp_path / "index", space)
    index = open_index(tmp_path / "index")
    queries = points_of(space, 7, seed=5)
    found = index.search(queries, 10)
    scores, rows = brute_force(space, queries, points, 10)
    assert torch.equal(found.rows, rows)
    torch.testing.assert_close(found.scores.double(), scores, atol=1e-5, rtol=1e-5)
    assert index.space == space
    assert index.model == MODEL
    assert index.modality == {"image": 200}
    assert len(index) == 200
    assert torch.equal(index.points(found.rows[0]), points[rows[0]])


def test_records_and_thumbnails_come_back(tmp_path):
    small_index(tmp_path / "index", SPACES["sphere"])
    index = open_index(tmp_path / "index")
    one, other = index.records(torch.tensor([150, 3]))
    assert (one.key, one.picture, one.caption, one.side["year"]) == ("pic/150.jpg", "pic/150.jpg", "caption 150", 2000)
    assert other.captions == ("caption 3", "another")
    assert index.thumbnail(3) == b"jpeg3"
    assert index.thumbnail(4) is None
    with pytest.raises(UserError, match="no row 200"):
        index.records([200])


def test_fewer_rows_than_asked_for_are_filled_up(tmp_path):
    small_index(tmp_path / "index", SPACES["sphere"], 5)
    found = open_index(tmp_path / "index").search(points_of(SPACES["sphere"], 2), 8)
    assert (found.rows[:, 5:] == -1).all()
    assert found.scores[:, 5:].eq(-torch.inf).all()
    assert sorted(found.rows[0, :5].tolist()) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(("dtype", "error"), [("float16", 2e-3), ("int8", 2e-2)])
def test_fewer_bytes_keep_the_scores_near(dtype, error, tmp_path):
    space = SPACES["sphere"]
    points = small_index(tmp_path / "index", space, making=Making(dtype=dtype))
    index = open_index(tmp_path / "index")
    queries = points_of(space, 7, seed=5)
    scores, _ = brute_force(space, queries, points, 10)
    found = index.search(queries, 10)
    torch.testing.assert_close(found.scores.double(), scores, atol=error, rtol=0)
    torch.testing.assert_close(index.points(range(200)), points, atol=error, rtol=0)


def test_added_rows_are_found_and_deleted_ones_are_not(tmp_path):
    space, folder = SPACES["sphere"], tmp_path / "index"
    points = small_index(folder, space)
    more = points_of(space, 50, seed=9)
    assert add(folder, [rows_of(more, first=200)]) == 50
    assert delete(folder, {"pic/3.jpg", "pic/210.jpg"}) == 2
    index = open_index(folder)
    assert len(index) == 248
    everything = torch.cat([points, more])
    _, rows = brute_force(space, everything[[3, 210, 7]], everything, 12)
    for query, expected in zip(index.search(everything[[3, 210, 7]], 10).rows, rows, strict=True):
        assert query.tolist() == [row for row in expected.tolist() if row not in (3, 210)][:10]
    with pytest.raises(UserError, match="no row 3"):
        index.points([3])


def test_the_same_keys_are_refused_and_replaced_where_asked(tmp_path):
    space, folder = SPACES["sphere"], tmp_path / "index"
    small_index(folder, space, 20)
    newer = points_of(space, 5, seed=3)
    with pytest.raises(UserError, match=r"pic/10.jpg.*--replace"):
        add(folder, [rows_of(newer, first=10)])
    assert len(open_index(folder)) == 20
    add(folder, [rows_of(newer, first=10)], replace=True)
    index = open_index(folder)
    assert len(index) == 20
    assert index.search(newer, 1).rows[:, 0].tolist() == [20, 21, 22, 23, 24]
    assert index.records([20])[0].key == "pic/10.jpg"


def test_a_filter_leaves_the_rows_it_lets_through(tmp_path):
    space = SPACES["geodesic"]
    points = small_index(tmp_path / "index", space)
    index = open_index(tmp_path / "index")
    found = index.search(points[:3], 200, 'year >= 2020 and kind = "photo"')
    expected = {n for n in range(200) if 2000 + n % 30 >= 2020 and n % 3}
    assert set(found.rows[0].tolist()) - {-1} == expected


def test_an_index_of_another_model_is_one_sentence(tmp_path):
    small_index(tmp_path / "index", SPACES["sphere"], 5)
    index = open_index(tmp_path / "index")
    require_same_model(index, MODEL.fingerprint, "runs/small")
    with pytest.raises(UserError, match=r"another model .*0123456789abcdef"):
        require_same_model(index, "f" * 16, "runs/other")


def test_points_of_another_width_are_one_sentence(tmp_path):
    small_index(tmp_path / "index", SPACES["sphere"], 5)
    with pytest.raises(UserError, match="16 numbers"):
        open_index(tmp_path / "index").search(torch.zeros(2, 8), 3)
