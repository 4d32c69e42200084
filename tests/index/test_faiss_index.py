"""ivf and hnsw: recall beside a whole sort in float64, in every space; filters, deletions, few rows."""

from __future__ import annotations

import pytest
import torch
from index_rows import MODEL, SPACES, brute_force, points_of, rows_of, small_index

from equipoise.index import faiss_search, open_index
from equipoise.index import folder as searching
from equipoise.index.making import Making, Rows
from equipoise.index.recall import recall
from equipoise.index.write import add, create, delete
from equipoise.spaces import TokenSets
from equipoise.types import UserError

pytest.importorskip("faiss")
MANY = 1500


@pytest.fixture(autouse=True)
def few_rows_are_many(monkeypatch):
    """So that faiss is asked in an index small enough for a test."""
    monkeypatch.setattr(searching, "FEW", 100)
    monkeypatch.setattr(faiss_search, "FEWEST", 1000)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["ivf", "hnsw"])
@pytest.mark.parametrize("name", SPACES)
def test_candidates_compared_again_find_nearly_all(name, kind, tmp_path):
    space, folder = SPACES[name], tmp_path / "index"
    points, queries = points_of(space, MANY), points_of(space, 50, seed=4)
    measured = create(folder, space, MODEL, [rows_of(points)], Making(kind), queries)
    index = open_index(folder)
    scores, rows = brute_force(space, queries, points, 10)
    found = index.search(queries, 10)
    assert recall(found.rows, rows) == pytest.approx(measured["recall@10"], abs=0.01)
    assert recall(found.rows, rows) >= 0.95
    own = torch.stack([space.similarity(q[None], index.points(r))[0] for q, r in zip(queries, found.rows, strict=True)])
    torch.testing.assert_close(found.scores, own, atol=1e-5, rtol=1e-5)
    assert (found.scores.double() <= scores + 1e-4).all()


@pytest.mark.parametrize("kind", ["ivf", "hnsw"])
def test_filters_deletions_and_additions_hold_among_candidates(kind, tmp_path):
    space, folder = SPACES["sphere"], tmp_path / "index"
    points = small_index(folder, space, MANY, Making(kind))
    add(folder, [rows_of(points_of(space, 50, seed=9), first=MANY)])
    delete(folder, {"pic/7.jpg"})
    index = open_index(folder)
    everything = torch.cat([points, points_of(space, 50, seed=9)])
    allowed = [n for n in range(MANY + 50) if n % 2 == 0 and n != 7]
    queries = everything[[7, MANY + 4, 100]]
    _, places = brute_force(space, queries, everything[allowed], 10)
    found = index.search(queries, 10, "good = true")
    assert recall(found.rows, torch.tensor(allowed)[places]) >= 0.9
    assert int(found.rows[1, 0]) == MANY + 4
    assert 7 not in index.search(queries, 10).rows[0]


def test_more_rows_than_the_lists_hold_are_found_all_the_same(tmp_path):
    space, folder = SPACES["sphere"], tmp_path / "index"
    small_index(folder, space, MANY, Making("ivf"))
    found = open_index(folder).search(points_of(space, 2, seed=3), 1200)
    assert (found.rows >= 0).all()


def test_a_space_without_candidates_is_refused(tmp_path):
    space = TokenSets(n=4, m=3)
    with pytest.raises(UserError, match=r"TokenSets.*--kind exact"):
        create(tmp_path / "index", space, MODEL, [Rows(torch.zeros(0, 12), [], [])], Making("ivf"))


def test_an_unknown_kind_or_dtype_is_one_sentence():
    with pytest.raises(UserError, match=r"did you mean ivf\?"):
        Making("iv")
    with pytest.raises(UserError, match=r"did you mean float16\?"):
        Making(dtype="float6")
