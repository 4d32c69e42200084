"""Who may ask: names, origins, tokens, how much and how often; and the headers of every answer."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import pytest
from serve.served import client_of, service_of
from starlette.testclient import TestClient

from equipoise.serve.guard import Access, is_allowed, is_loopback
from equipoise.serve.limits import Limits, Rate, TooOften
from equipoise.serve.request import ServeRequest
from equipoise.serve.service import Service
from equipoise.serve.start import access_of

TOKEN = "a-token-of-some-length"


@pytest.fixture(scope="module")
def service(finished_run: Path) -> Service:
    return service_of(finished_run)


@pytest.fixture(scope="module")
def client(service: Service) -> Iterator[TestClient]:
    with client_of(service) as client:
        yield client


@pytest.mark.parametrize(
    ("host", "allowed"),
    [
        ("localhost:8000", True),
        ("127.0.0.1", True),
        ("[::1]:8000", True),
        ("192.168.1.7:80", True),
        ("Photos.Example:443", True),
        ("evil.example", False),
        ("127.0.0.1.evil.example", False),
        ("localhost.evil.example", False),
        ("[::1", False),
        ("", False),
    ],
)
def test_names_that_others_could_point_here_are_not_answered(client, host, allowed):
    assert is_allowed(host, ("photos.example",)) is allowed
    if not allowed:
        assert client.get("/api/about", headers={"host": host}).status_code == 421
        assert client.get("/", headers={"host": host}).status_code == 421


def test_a_page_from_elsewhere_cannot_use_it(client):
    form = {"files": {"file": ("a.png", b"x")}}
    assert client.post("/api/pictures", headers={"origin": "http://evil.example"}, **form).status_code == 403
    assert client.post("/api/pictures", headers={"origin": "null"}, **form).status_code == 403
    assert (
        client.get("/api/sample", headers={"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"}).status_code
        == 403
    )
    assert client.get("/api/sample", headers={"origin": "http://localhost"}).status_code == 200
    followed = client.get("/", headers={"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"})
    assert followed.status_code == 200


def test_a_token_is_asked_for_everything_but_the_pages_own_files(finished_run):
    with client_of(service_of(finished_run), Access(TOKEN)) as client:  # a service ends with its client
        for path in ("/api/about", "/api/rows/1/thumbnail", "/openapi.json"):
            assert client.get(path).status_code == 401
            for wrong in ("", "Bearer", "Bearer x", f"Bearer {TOKEN}x", "Bearer é"):
                assert client.get(path, headers={"authorization": wrong.encode()}).status_code == 401
            assert client.get(path, headers={"authorization": f"Bearer {TOKEN}"}).status_code == 200
        assert client.get("/").status_code == 200
        assert client.get("/page/app.js").status_code == 200


def test_only_this_machine_needs_no_token(tmp_path):
    run = tmp_path / "run"
    for host in ("127.0.0.1", "localhost", "::1", "127.0.0.2"):
        assert is_loopback(host)
        assert access_of(ServeRequest(run, host=host)).token == ""
    for host in ("0.0.0.0", "::", "192.168.1.7", "photos.example"):
        assert not is_loopback(host)
        made = access_of(ServeRequest(run, host=host)).token
        assert len(made) >= 24
        assert made != access_of(ServeRequest(run, host=host)).token
    assert access_of(ServeRequest(run, hosts=("photos.example",))).token  # a proxy makes it public
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    assert access_of(ServeRequest(run, token_file=file)).token == TOKEN


def test_a_body_is_counted_whatever_it_promises(client):
    def endless() -> Iterator[bytes]:
        for _ in range(12):
            yield bytes(1 << 20)

    assert client.post("/api/search", content=endless()).status_code == 413
    assert client.post("/api/pictures", content=endless()).status_code == 413
    assert client.get("/api/about").status_code == 200


def test_an_address_may_ask_so_often_and_then_has_to_wait(finished_run):
    with client_of(service_of(finished_run, limits=Limits(rate=8))) as client:
        answers = [client.get("/api/sample").status_code for _ in range(4)]
        assert answers == [200, 200, 429, 429]
        assert client.get("/api/rows/1/thumbnail").status_code == 200
        refused = client.get("/api/sample")
        assert refused.headers["retry-after"]
        assert "8 requests a minute" in refused.json()["error"]


def test_the_rate_is_refilled_by_time():
    now = [0.0]
    rate = Rate(60, lambda: now[0])
    for _ in range(15):
        rate.take("a")
    with pytest.raises(TooOften):
        rate.take("a")
    rate.take("b")
    now[0] = 1.0
    rate.take("a")
    with pytest.raises(TooOften):
        rate.take("a")
    assert Rate(0).take("a") is None


@pytest.mark.parametrize("path", ["/", "/page/app.js", "/api/about", "/nothing", "/api/rows/99999/thumbnail"])
def test_every_answer_has_safe_headers(client, path):
    headers = client.get(path).headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["x-frame-options"] == "DENY"
    assert headers["referrer-policy"] == "no-referrer"
    assert "server" not in headers


@pytest.mark.parametrize(
    "path", ["/", "/page/app.js", "/api/about", "/api/rows/1/thumbnail", "/api/search", "/nothing"]
)
def test_head_is_answered_as_get_without_the_body(client, path):
    got, asked = client.get(path), client.head(path)
    assert asked.status_code == got.status_code
    assert asked.headers == got.headers  # with the length of the body that is left out
    assert int(asked.headers["content-length"]) == len(got.content) > 0
    assert asked.content == b""


def test_head_is_asked_for_the_token_as_get_is(finished_run):
    with client_of(service_of(finished_run), Access(TOKEN)) as client:
        assert client.head("/api/about").status_code == 401
        assert client.head("/api/about", headers={"authorization": f"Bearer {TOKEN}"}).status_code == 200


def test_the_page_loads_nothing_from_elsewhere_and_nothing_inline(client):
    folder = files("equipoise.serve").joinpath("page")
    for path in folder.iterdir():
        text = path.read_text(encoding="utf-8")
        outside = set(re.findall(r"(?:https?:)?//[\w.-]+\.\w+[^\s\"']*", text)) - {"http://www.w3.org/2000/svg"}
        assert not outside, path.name
    page = folder.joinpath("index.html").read_text(encoding="utf-8")
    assert not re.search(r"\son\w+=|\sstyle=|<style|<script(?![^>]*\ssrc=)", page)
    for name in re.findall(r"/page/[\w.]+", "".join(path.read_text(encoding="utf-8") for path in folder.iterdir())):
        assert client.get(name).status_code == 200, name


def test_the_api_describes_itself(client):
    described = client.get("/openapi.json").json()
    assert {"/api/search", "/api/pictures", "/api/classify", "/api/explain", "/api/suspects"} <= set(described["paths"])
    for methods in described["paths"].values():
        for operation in methods.values():
            assert operation["description"]
