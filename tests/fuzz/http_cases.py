"""Requests to `equipoise serve`, sound ones with something wrong in them; answered as a browser would see it.

    {"kind": "http", "method": "POST", "path": "/api/search", "headers": {...}, "text": "{...}"}    or "hex" for bytes

Every answer has a status below 500 (or 503, too many at once). A refusal is one sentence in JSON without a path of this
machine in it; an answer is JSON without NaN, a picture or a page.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from pathlib import Path
from random import Random
from typing import Any

from draw import TEXTS, VALUES, WORDS
from edits import contents, text_of
from server import Case, Silent, Unclear
from starlette.testclient import TestClient

from equipoise.serve.app import build_app
from equipoise.serve.open import open_service
from equipoise.serve.request import ServeRequest

SOUND_BODIES: dict[str, dict[str, Any]] = {
    "/api/search": {"texts": ["a red fish"], "without": ["a star"], "pictures": [], "rows": [1], "k": 3},
    "/api/classify": {"classes": ["a fish", "a star"], "row": 0, "template": "a {}", "model": "first"},
    "/api/explain": {"text": "a red fish", "row": 0, "model": "first"},
    "/api/suspects/0": {"decision": "swap", "instead": 1},
}  # fmt: skip
PATHS = [
    "/", "/api/about", "/api/sample", "/api/rows/0/thumbnail", "/api/codes", "/api/codes/pictures/0/thumbnail",
    "/api/suspects", "/api/suspects?start=0&count=5", "/api/suspects/0/thumbnail", "/api/suspects/1/better",
    "/page/page.js", "/openapi.json",
]  # fmt: skip
PARTS = [
    "-1", "99999999999999999999", "1e3", "..", "%2e%2e%2f", "..%2f..%2fetc%2fpasswd", "%00", "nan", "%ff", "0x1", "",
    "é", "a" * 3000,
]  # fmt: skip
HEADERS = [
    ("host", "evil.example"), ("host", ""), ("origin", "http://evil.example"), ("content-type", "text/plain"),
    ("content-type", "application/json; charset=utf-16"), ("content-type", "multipart/form-data"),
    ("content-type", "multipart/form-data; boundary="), ("content-length", "99999999999"),
    ("authorization", "Bearer x"),
    ("transfer-encoding", "chunked"), ("accept-encoding", "br;q=x"), ("range", "bytes=5-1"), ("x", "y" * 5000),
]  # fmt: skip
BOUNDARY = "fuzz"


def draw_request(random: Random, seeds: Path) -> Case:
    kind = random.choice(["body", "body", "body", "path", "upload", "upload"])
    if kind == "body":
        case = _body(random)
    elif kind == "path":
        case = {"method": "GET", "path": _path(random)}
    else:
        case = _upload(random, seeds)
    if random.random() < 0.2:
        name, value = random.choice(HEADERS)
        case["headers"] = {**case.get("headers", {}), name: value}
    if random.random() < 0.05:
        case["method"] = random.choice(["GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "TRACE", "X"])
    return case


def _body(random: Random) -> Case:
    path, sound = random.choice(list(SOUND_BODIES.items()))
    mark, body = "\0the value\0", dict(sound)
    key = random.choice([*body, "version", "where", "picture", "unknown"])
    inner = body.get(key)
    if isinstance(inner, list) and inner and random.random() < 0.6:
        body[key] = [mark, *inner[1:]]
    else:
        body[key] = mark
    value = text_of(random.choice(VALUES)) if random.random() < 0.6 else json.dumps(random.choice(TEXTS))
    data = json.dumps(body).replace(json.dumps(mark), value).encode("utf-8", "surrogatepass")
    if random.random() < 0.2:
        at = random.randrange(len(data))
        data = data[:at] + random.choice(WORDS) + data[at + random.choice([0, 1, 8]) :]
    return {"method": "POST", "path": path, "headers": {"content-type": "application/json"}, "hex": data.hex()}


def _path(random: Random) -> str:
    parts = random.choice(PATHS).split("/")
    if random.random() < 0.8:
        parts[random.randrange(1, len(parts))] = random.choice(PARTS)
    return "/".join(parts) + random.choice(["", "", "?model=x", "?start=-1", "?count=1e9&start=nan", "?count=%00"])


def _upload(random: Random, seeds: Path) -> Case:
    file = random.choice(sorted((seeds / "pictures").iterdir()))
    data = bytearray(file.read_bytes())
    for _ in range(random.choice([0, 1, 1, 3])):
        data[random.randrange(len(data))] = random.randrange(256)
    data = data[: random.choice([len(data), len(data), len(data) // 2, 0])]
    name = random.choice([file.name, "../x.png", "é\r\n.png", "x" * 500, ""])
    field = random.choice([*["file"] * 6, "picture"])
    head = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{field}"; filename="{name}"\r\n\r\n'
    body = head.encode() + bytes(data) + random.choice([*[f"\r\n--{BOUNDARY}--\r\n"] * 6, "", "\r\n"]).encode()
    kind = {"content-type": f"multipart/form-data; boundary={BOUNDARY}"}
    return {"method": "POST", "path": "/api/pictures", "headers": kind, "hex": body.hex()}


_CLIENTS: dict[int, TestClient] = {}  # by process: threads of a service do not survive a fork


def ask(case: Case, here: Path) -> None:
    answer = _client(here.parent.parent).request(
        case["method"],
        case["path"],
        headers={name: value.encode("utf-8", "surrogatepass") for name, value in case.get("headers", {}).items()},
        content=contents(case) if "hex" in case or "text" in case else b"",
    )
    kind = answer.headers.get("content-type", "")
    if answer.status_code >= 500 and answer.status_code != 503:
        raise RuntimeError(f"{case['path']} is answered with {answer.status_code}: {answer.text[:200]}")
    if answer.status_code < 400:
        if "json" in kind:
            json.loads(answer.content, parse_constant=_no_number)
        return
    if case["method"] == "HEAD":
        return
    said = json.loads(answer.content)["error"]
    if os.environ["FUZZ_SEEDS"] in said or str(Path.cwd()) in said:
        raise Silent("a path of this machine in the answer")
    raise Unclear(said)


def _no_number(name: str) -> None:
    raise Silent(f"{name} in an answer")


def _client(place: Path) -> TestClient:
    if os.getpid() not in _CLIENTS:
        seeds = Path(os.environ["FUZZ_SEEDS"])
        suspects = Path(tempfile.mkdtemp(dir=place)) / "suspects"  # a copy, for decisions are written into it
        shutil.copytree(seeds / "suspects", suspects)
        service = open_service(ServeRequest(seeds / "model", suspects=suspects))
        _CLIENTS[os.getpid()] = TestClient(build_app(service), base_url="http://localhost")
    return _CLIENTS[os.getpid()]
