"""The command itself: a process that says where it listens, answers, and ends at a signal without a traceback."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import pytest

ROOT = Path(__file__).parents[2]


@contextmanager
def serving(*words: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """The address that `equipoise serve` prints, and its process."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "equipoise", "serve", *words, "--port", "0"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, cwd=ROOT
    ) as process:
        try:
            assert process.stdout is not None
            printed = ""
            for line in process.stdout:
                printed += line
                if found := re.search(r"Open (http://\S+)", line):
                    break
            else:
                pytest.fail(f"it did not start: {printed} {process.communicate()[1]}")
            yield found[1], process
        finally:
            process.kill()


@pytest.mark.slow
def test_it_answers_and_ends_at_ctrl_c(finished_run):
    with serving(str(finished_run)) as (address, process):
        page = urllib.request.urlopen(address, timeout=30)
        assert page.status == 200
        assert "server" not in page.headers
        connection = HTTPConnection(urlsplit(address).netloc, timeout=30)
        for method, length in (("HEAD", 0), ("GET", int(page.headers["content-length"]))):  # one after the other
            connection.request(method, "/")
            answer = connection.getresponse()
            assert (answer.status, len(answer.read())) == (200, length)
        connection.close()
        question = urllib.request.Request(f"{address}api/search", json.dumps({"texts": ["a star"]}).encode())
        question.add_header("content-type", "application/json")
        assert json.load(urllib.request.urlopen(question, timeout=30))["found"]
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
        assert process.returncode == 130
        assert said == "equipoise: stopped\n"


@pytest.mark.slow
def test_any_address_but_this_machines_own_needs_the_token_that_is_printed(finished_run):
    with serving(str(finished_run), "--host", "0.0.0.0") as (address, _):
        base, _, fragment = address.partition("#")
        about = base.replace("0.0.0.0", "127.0.0.1") + "api/about"
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(about, timeout=30)
        assert caught.value.code == 401
        allowed = urllib.request.Request(about, headers={"authorization": "Bearer " + fragment.removeprefix("token=")})
        assert urllib.request.urlopen(allowed, timeout=30).status == 200
