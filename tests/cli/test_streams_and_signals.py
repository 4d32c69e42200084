"""Standard streams that are closed, left or poor in signs, and signals at any moment: real processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def shell(line: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs a line of bash in which `equipoise` is the command line."""
    function = f'set -o pipefail; equipoise() {{ "{sys.executable}" -m equipoise "$@"; }}; '
    return subprocess.run(
        ["bash", "-c", function + line],
        capture_output=True, text=True, cwd=ROOT, env={**os.environ, **environment}, check=False,
    )  # fmt: skip


def test_closed_streams_do_not_end_the_work() -> None:
    assert shell("equipoise recipes >&-").returncode == 0
    done = shell("equipoise train 2>&-")
    assert (done.returncode, done.stdout) == (2, "")


@pytest.mark.slow
def test_a_file_never_takes_the_place_of_a_closed_stream(tmp_path: Path) -> None:
    """Else what is printed would land in the first file that is opened."""
    picture = tmp_path / "a.png"
    done = shell(f"equipoise scenes preview --count 1 --out {picture} >&- 2>&- <&-")
    assert done.returncode == 0
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_a_run_with_closed_streams_comes_to_its_end(tmp_path: Path, tiny_settings: tuple[str, ...]) -> None:
    sets = " ".join(f"--set={text}" for text in tiny_settings)
    assert shell(f"equipoise train demo --out {tmp_path / 'run'} {sets} >&- 2>&-").returncode == 0
    assert (tmp_path / "run" / "report.html").is_file()


def test_a_reader_who_has_seen_enough_is_no_failure() -> None:
    for words in ("recipes", "--help"):
        done = shell(f"equipoise {words} | head -1")
        assert (done.returncode, done.stderr) == (0, ""), words
        assert done.stdout.count("\n") == 1


@pytest.mark.slow
def test_a_table_may_be_left_in_the_middle(finished_run: Path) -> None:
    done = shell(f"equipoise eval {finished_run} | head -1")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
@pytest.mark.parametrize(
    "environment",
    [{"PYTHONIOENCODING": "ascii"}, {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}],
)
def test_signs_that_the_terminal_lacks_are_escaped(finished_run: Path, environment: dict[str, str]) -> None:
    done = shell(f"equipoise eval {finished_run}", **environment)
    assert (done.returncode, done.stderr) == (0, "")
    assert r"\u2192" in done.stdout
    assert done.stdout.isascii()


def test_bytes_that_are_no_text_are_refused_before_the_work(tmp_path: Path) -> None:
    for words in ("train demo --out $'b\\xff'", "show demo --set name=$'\\xff'", "eval $'\\xfe'"):
        done = shell(f"cd {tmp_path}; PYTHONPATH={ROOT} equipoise {words}")
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.count("\n") == 1
        assert "not UTF-8" in done.stderr
    assert not list(tmp_path.iterdir())


SLEEPS = """
import sys, signal, time
from equipoise.cli.interrupts import stoppable

class Finalizer:
    def __del__(self):
        print("ready", flush=True)
        time.sleep({first})

def work():
    {body}
    return 0

sys.exit(stoppable(work))
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize(
    "body",
    [
        'print("ready", flush=True); time.sleep(60)',
        "Finalizer(); time.sleep(60)",  # which swallows what is raised in it
        'try:\n        print("ready", flush=True); time.sleep(60)\n'
        '    except BaseException:\n        raise ImportError("initialization failed")',  # as compiled modules do
        "exec(\"print('ready', flush=True); time.sleep(60)\")",  # after which Python would end itself by SIGINT
    ],
    ids=["plain", "in a finalizer", "turned into another error", "in exec"],
)
def test_a_signal_is_one_sentence_wherever_it_comes(body: str, number: signal.Signals) -> None:
    script = SLEEPS.format(first=60, body=body)
    running = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT)
    assert running.stdout is not None
    assert running.stdout.readline() == b"ready\n"
    running.send_signal(number)
    _, said = running.communicate(timeout=60)
    assert running.returncode == 128 + number
    assert said.decode() == ("equipoise: stopped\n" if number == signal.SIGINT else "equipoise: stopped by SIGTERM\n")


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_modules_are_imported(number: signal.Signals, tmp_path: Path) -> None:
    """At many moments, whatever is imported or read then; a folder that the run has made is free again."""
    words = [sys.executable, "-X", "importtime", "-m", "equipoise", "train", "demo", "--out", str(tmp_path / "run")]
    for lines in (150, 400, 700, 1000, 1300, 1600):  # modules that are there when the signal comes
        running = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT)
        assert running.stderr is not None
        for _ in range(lines):
            running.stderr.readline()
        running.send_signal(number)
        time.sleep(0.01)
        _, rest = running.communicate(timeout=120)
        said = [line for line in rest.splitlines() if not line.startswith("import time:")]
        assert len(said) <= 1, said
        assert running.returncode in (128 + number, -number), lines  # the latter before anything of ours runs
        assert not (tmp_path / "run" / ".lock").exists()
