"""What is installed: the lock files hold what pyproject.toml and constraints.txt ask for, with hashes and licences."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

TOOLS = Path(__file__).parents[1] / "tools"
sys.path.insert(0, str(TOOLS))

from closure import APART, LOCKS, ROOT, closure, constraints, declared, locked  # noqa: E402
from packaging.utils import canonicalize_name  # noqa: E402


def pins(lock: str) -> dict[str, str]:
    return {name: version for name, version, _ in locked(lock)}


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_holds_what_pyproject_asks_for(lock):
    versions = {**pins(lock), **{name: constraints()[name] for name in APART}}
    for requirement in declared(LOCKS[lock]):
        assert requirement.specifier.contains(versions[canonicalize_name(requirement.name)]), requirement


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_holds_all_that_its_packages_ask_for(lock):
    """On every interpreter and machine that it is for, whichever this one is."""
    reached, _ = closure(declared(LOCKS[lock]))
    assert reached.keys() - pins(lock).keys() == set(APART)


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_agrees_with_the_constraints(lock):
    pinned = constraints()
    assert {name: version for name, version in pins(lock).items() if pinned.get(name, version) != version} == {}


def test_one_version_of_everything():
    whole = pins("requirements-test.lock")
    assert {name: whole[name] for name in pins("requirements.lock")} == pins("requirements.lock")


def test_every_constraint_is_of_something_that_is_locked():
    assert constraints().keys() - set(APART) <= pins("requirements-test.lock").keys()


@pytest.mark.parametrize("lock", LOCKS)
def test_every_package_has_hashes(lock):
    for name, _, hashes in locked(lock):
        assert hashes, name
        assert all(re.fullmatch("[0-9a-f]{64}", one) for one in hashes), name


def test_every_locked_package_has_a_licence_that_is_not_copyleft():
    page = (ROOT / "docs" / "licences.md").read_text()
    rows = dict(re.findall(r"^\| (\S+) \| \S+ \| (.+?) \| `make", page, re.M))
    assert rows.keys() == pins("requirements-test.lock").keys() | set(APART)
    assert not [name for name, text in rows.items() if re.search(r"\b[AL]?GPL|General Public", text)]


def test_lower_bounds_are_printed_for_pip():
    done = subprocess.run(
        [sys.executable, TOOLS / "lowest.py", "shards"], capture_output=True, text=True, check=True, timeout=60
    )
    lines = dict(line.split("==") for line in done.stdout.split())
    assert {"torch", "numpy", "webdataset"} <= lines.keys()
    assert "tensorboard" not in lines


@contextmanager
def advisory_server(vulnerable: dict[str, list[dict[str, object]]], missing: tuple[str, ...] = ()) -> Iterator[str]:
    """Answers /NAME/VERSION/json as PyPI does."""

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            name = self.path.split("/")[1]
            self.send_response(404 if name in missing else 200)
            self.end_headers()
            self.wfile.write(json.dumps({"vulnerabilities": vulnerable.get(name, [])}).encode())

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


HOLE: dict[str, object] = {"id": "PYSEC-1", "link": "https://example.org/1", "fixed_in": ["99.0"], "withdrawn": None}


@pytest.mark.parametrize(
    ("vulnerable", "missing", "status", "said"),
    [
        pytest.param({}, (), 0, "no known advisory", marks=pytest.mark.slow),
        ({"pillow": [HOLE]}, (), 1, "PYSEC-1"),
        pytest.param({"torch": [HOLE]}, (), 1, "mended in 99.0", marks=pytest.mark.slow),
        pytest.param({"pillow": [{**HOLE, "withdrawn": "2026-01-01"}]}, (), 0, "no known", marks=pytest.mark.slow),
        pytest.param({}, ("numpy",), 3, "did not answer for 1 of", marks=pytest.mark.slow),
    ],
    ids=["none", "locked", "torch", "withdrawn", "silent"],
)
def test_known_advisories_are_named(vulnerable, missing, status, said):
    with advisory_server(vulnerable, missing) as server:
        command = [sys.executable, str(TOOLS / "advisories.py"), "--json", server]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == status, done.stderr
    assert said in done.stdout + done.stderr
