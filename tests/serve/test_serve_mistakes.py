"""Bad input: one sentence and the right status, no path of the server, and the service goes on."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from serve.served import bomb, client_of, png, service_of
from starlette.testclient import TestClient

from equipoise.serve.errors import Paths, shown_name, shown_side
from equipoise.serve.limits import Limits
from equipoise.serve.open import open_service
from equipoise.serve.request import ServeRequest
from equipoise.serve.service import Service
from equipoise.serve.start import serve
from equipoise.types import UserError

JSON = {"content-type": "application/json"}


@pytest.fixture(scope="module")
def service(finished_run: Path) -> Service:
    return service_of(finished_run, limits=Limits(upload=200_000, pixels=1_000_000))


@pytest.fixture(scope="module")
def client(service: Service) -> Iterator[TestClient]:
    with client_of(service) as client:
        yield client


def sentence(answer, status: int) -> str:
    assert answer.status_code == status, answer.text
    assert list(answer.json()) == ["error"]
    said = answer.json()["error"]
    assert "\n" not in said
    assert "Traceback" not in said
    return said


@pytest.mark.parametrize(
    ("data", "status", "said"),
    [
        (b"not a picture", 415, "no known image format"),
        (b"", 415, "empty"),
        (png()[:60], 415, "cannot be read"),
        (bomb(), 413, "pixels"),
        (bomb(1001), 413, "1,000,000 pixels"),
        (png() + bytes(300_000), 413, "bytes"),
    ],
    ids=["text", "empty", "half", "bomb", "too many pixels", "too many bytes"],
)
def test_a_picture_that_is_none_is_refused(client, data, status, said):
    assert said in sentence(client.post("/api/pictures", files={"file": ("a.png", data)}), status)
    assert client.post("/api/pictures", files={"file": ("a.png", png())}).status_code == 200


@pytest.mark.parametrize(
    ("query", "status", "said"),
    [
        ({"texts": ["a" * 10_000_000]}, 413, "bytes"),
        ({"texts": ["a" * 1001]}, 422, "1,001 letters"),
        ({"texts": ["red " * 200]}, 400, "tokens"),
        ({"texts": [" "]}, 422, "empty"),
        ({"texts": ["\ud800"]}, 422, "no text"),
        ({}, 400, "nothing to search for"),
        ({"without": ["a star"]}, 400, "nothing to search for"),
        ({"texts": ["a"], "k": 0}, 422, "k"),
        ({"texts": ["a"], "k": 1000}, 422, "at most"),
        ({"texts": ["a"] * 9}, 422, "texts"),
        ({"texts": "a"}, 422, "texts"),
        ({"tests": ["a"]}, 422, "tests"),
        ({"texts": ["a"], "where": "year > 3"}, 400, "side data"),
        ({"texts": ["a"], "model": "third"}, 404, "third"),
        ({"texts": ["a"], "version": "0000"}, 409, "0000"),
        ({"rows": [10**9]}, 400, "row"),
        ({"pictures": ["unknown"]}, 404, "picture"),
    ],
    ids=lambda value: str(value)[:30] if isinstance(value, dict) else "",
)
def test_a_search_that_makes_no_sense_is_refused(client, query, status, said):
    assert said in sentence(client.post("/api/search", content=json.dumps(query), headers=JSON), status)
    assert client.post("/api/search", json={"texts": ["a star"]}).status_code == 200


def test_what_is_no_json_is_refused(client):
    for body, status in ((b"{", 422), (b"[" * 60_000, 400), (b"\xff", 400)):
        assert sentence(client.post("/api/search", content=body, headers=JSON), status)
    assert sentence(
        client.post("/api/search", content=b'{"texts": ["a"]}', headers={"content-type": "text/plain"}), 422
    )


@pytest.mark.parametrize(
    ("question", "status", "said"),
    [
        ({"row": 1, "classes": ["one"]}, 422, "two at least"),
        ({"row": 1, "classes": ["one", "one"]}, 400, "twice"),
        ({"row": 1, "classes": ["a", "b"], "template": "no place"}, 400, "template"),
        ({"classes": ["a", "b"]}, 422, "picture"),
        ({"row": 1, "classes": [str(n) for n in range(201)]}, 422, "200"),
    ],
)
def test_a_question_about_classes_that_makes_no_sense_is_refused(client, question, status, said):
    assert said in sentence(client.post("/api/classify", json=question), status)


def test_a_long_name_of_a_class_is_not_said_in_full(client):
    said = sentence(client.post("/api/classify", json={"row": 1, "classes": ["red " * 200, "blue"]}), 400)
    assert "tokens" in said
    assert len(said) < 250


@pytest.mark.parametrize("form", [{"data": {"file": "words"}}, {"files": {"other": ("a.png", png())}}, {}])
def test_a_form_without_a_picture_is_told_what_to_send(client, form):
    said = sentence(client.post("/api/pictures", **form), 422)
    assert said == 'send the picture as a file of a form, in its field "file"'


def test_what_is_not_there_is_said_in_a_sentence(client):
    for path in ("/nothing", "/page/../app.py", "/page/..%2Fapp.py", "/docs", "/redoc", "/api/nothing"):
        sentence(client.get(path), 404)
    sentence(client.get("/api/search"), 405)
    sentence(client.get("/api/suspects"), 404)
    sentence(client.get("/api/codes"), 404)
    sentence(client.get("/api/rows/99999/thumbnail"), 400)
    sentence(client.get("/api/rows/x/thumbnail"), 422)


def test_an_error_that_nobody_expected_is_answered_without_its_words(client, service, monkeypatch):
    def broken(*_: object) -> None:
        raise RuntimeError("/secret/place is broken")

    with monkeypatch.context() as patched:
        patched.setattr(type(service.first.index), "records", broken)
        said = sentence(client.post("/api/search", json={"texts": ["a star"]}), 500)
    assert "secret" not in said
    assert client.post("/api/search", json={"texts": ["a star"]}).status_code == 200


def test_no_path_leaves_with_an_error(client, service, monkeypatch, tmp_path):
    def broken(*_: object) -> None:
        raise UserError(f"cannot read {tmp_path / 'my photos' / 'a.csv'}: gone; look at data/rows/x.bin")

    monkeypatch.setattr(type(service.first.index), "records", broken)
    said = sentence(client.post("/api/search", json={"texts": ["a star"]}), 400)
    assert str(tmp_path) not in said
    assert not re.search(r"[/\\]", said)
    assert "a.csv: gone" in said


def test_paths_are_cut_to_their_last_part():
    paths = Paths([Path("/srv/my data/runs")])
    assert paths.without("cannot read /srv/my data/runs/demo/x.bin: gone") == "cannot read x.bin: gone"
    assert paths.without('"C:\\Users\\me\\a.txt" is bad; see runs/demo/') == '"a.txt" is bad; see ...'
    assert paths.without("give 1 to 2 rows") == "give 1 to 2 rows"
    names = {"/home/me/a.jpg": "a.jpg", "../x/b.jpg": "b.jpg", "C:\\me\\c.jpg": "c.jpg", "cats/d.jpg": "cats/d.jpg"}
    assert {key: shown_name(key) for key in names} == names
    side = {"file": "/srv/x.jpg", "tags": ["~/y", "red/blue"], "year": 3, "url": "https://example.org/z"}
    assert shown_side(side) == {"file": "x.jpg", "tags": ["y", "red/blue"], "year": 3, "url": "https://example.org/z"}


def test_options_that_do_not_go_together_are_refused(finished_run, tmp_path):
    with pytest.raises(UserError, match="--beside-index"):
        open_service(ServeRequest(finished_run, index="x", beside=finished_run))
    with pytest.raises(UserError, match="--beside RUN"):
        open_service(ServeRequest(finished_run, beside_index="x"))
    with pytest.raises(UserError, match=r"keep\.json"):
        open_service(ServeRequest(finished_run, suspects=tmp_path))
    with pytest.raises(UserError, match="no model"):
        open_service(ServeRequest(tmp_path))
    with pytest.raises(UserError, match="--upload"):
        Limits(upload=0)


def test_where_it_cannot_listen_is_said(finished_run, tmp_path):
    with pytest.raises(UserError, match="--port"):
        serve(ServeRequest(finished_run, port=70_000))
    with pytest.raises(UserError, match="cannot listen"):
        serve(ServeRequest(finished_run, host="203.0.113.1", port=0))
    short = tmp_path / "token"
    short.write_text("short")
    with pytest.raises(UserError, match="16"):
        serve(ServeRequest(finished_run, port=0, token_file=short))
    with pytest.raises(UserError, match="cannot read the token"):
        serve(ServeRequest(finished_run, port=0, token_file=tmp_path / "none"))


def test_a_run_whose_data_is_gone_says_how_to_go_on(finished_run, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(finished_run, run)
    text = (run / "config.toml").read_text()
    (run / "config.toml").write_text(text.replace('name = "scenes"', 'name = "no_such_source"', 1))
    from equipoise.io.digests import renew_digest

    renew_digest(run, "config.toml")
    with pytest.raises(UserError, match="no_such_source"):
        open_service(ServeRequest(run))


def test_what_is_no_json_is_told_where(client):
    answer = client.post("/api/search", content=b'{"texts": [a]}', headers=JSON)
    assert sentence(answer, 422) == "the request is no JSON from its letter 11 on; mend it and send it again"


def test_half_a_character_is_answered(client):
    answer = client.post("/api/search", content=rb'{"texts": ["a fish"], "model": "\udfff"}', headers=JSON)
    assert "?" in sentence(answer, 404)
