"""Whole processes that are stopped, killed and started again, through the command line."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from small_run import without_clock, write_recipe

import equipoise
from equipoise.cli import main
from equipoise.models.folder import step_folders
from equipoise.training.logging.metrics import read_metrics

ROOT = Path(equipoise.__file__).parent.parent
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
# Where a process waits is told before the test's own patience ends.
MAIN = """
import faulthandler, signal, sys
faulthandler.dump_traceback_later(50)
signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job ignores it otherwise
from equipoise.cli import main
sys.exit(main(sys.argv[1:]))
"""


def start(*arguments: str | Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", MAIN, *map(str, arguments)]
    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT,
        cwd=ROOT,
        start_new_session=True,
    )


def finish(*arguments: str | Path) -> tuple[int, str, str]:
    process = start(*arguments)
    out, err = process.communicate(timeout=120)
    assert "Traceback" not in err
    return process.returncode, out, err


def wait_for_checkpoint(folder: Path) -> None:
    deadline = time.monotonic() + 120
    while not step_folders(folder):
        assert time.monotonic() < deadline
        time.sleep(0.001)


def long(recipe: Path, folder: Path, *more: str) -> tuple[str | Path, ...]:
    settings = ("training.steps=100000", "training.checkpoint_every=2", *more)
    return ("train", recipe, "--out", folder, *(word for setting in settings for word in ("--set", setting)))


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 143), pytest.param(signal.SIGINT, 130, marks=pytest.mark.slow)]
)
def test_a_signal_saves_and_says_how_to_go_on(tmp_path, number, code):
    process = start(*long(write_recipe(tmp_path), tmp_path / "run"))
    wait_for_checkpoint(tmp_path / "run")
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == code
    assert "Traceback" not in err
    step = max(int(record["step"]) for record in read_metrics(tmp_path / "run" / "metrics.jsonl"))
    assert f"Stopped by {number.name} after step {step}; go on with: equipoise train --resume" in out
    assert step_folders(tmp_path / "run")[-1].name == f"step-{step:08d}"


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_to_the_loaders_too(tmp_path, number):
    """As a cluster or a terminal sends it: to every process of the run."""
    process = start(*long(write_recipe(tmp_path), tmp_path / "run", "training.workers=2"))
    wait_for_checkpoint(tmp_path / "run")
    os.killpg(process.pid, number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert err.count("Traceback") == 0, err
    step = max(int(record["step"]) for record in read_metrics(tmp_path / "run" / "metrics.jsonl"))
    assert f"Stopped by {number.name} after step {step}" in out
    assert step_folders(tmp_path / "run")[-1].name == f"step-{step:08d}"


@pytest.mark.slow
def test_a_loader_that_dies_is_one_sentence(tmp_path):
    process = start(*long(write_recipe(tmp_path), tmp_path / "run", "training.workers=2"))
    wait_for_checkpoint(tmp_path / "run")
    worker = int(Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()[0])
    os.kill(worker, signal.SIGKILL)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 2
    assert "Traceback" not in err
    assert "a process that reads data died" in err


@pytest.mark.slow
def test_the_second_signal_ends_the_process_at_once(tmp_path):
    script = """
import signal, time
from equipoise.training.signals import SignalHandler
with SignalHandler():
    print("ready", flush=True)
    for _ in range(600):
        time.sleep(0.1)
"""
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, env=ENVIRONMENT)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGTERM)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.5)
    process.send_signal(signal.SIGTERM)
    assert process.wait(5) == -signal.SIGTERM


@pytest.mark.slow  # three processes, one after the other; locks are tested in test_run_folder.py
def test_two_runs_in_one_folder(tmp_path):
    recipe = write_recipe(tmp_path)
    first = start(*long(recipe, tmp_path / "run"))
    try:
        wait_for_checkpoint(tmp_path / "run")
        for second in (long(recipe, tmp_path / "run"), ("train", "--resume", tmp_path / "run")):
            code, _, err = finish(*second)
            assert code == 2
            assert f"{tmp_path / 'run'} is in use by process {first.pid} on " in err
    finally:
        first.kill()
        first.communicate()


@pytest.mark.slow  # seven processes, one after the other; what they do is tested in one process in test_resume.py
def test_the_command_a_cluster_repeats(tmp_path):
    """One command starts, goes on, and is content when all is done; other settings are refused by name."""
    recipe = write_recipe(tmp_path)
    again = ("train", recipe, "--out", tmp_path / "run", "--resume")
    process = start(*again)
    wait_for_checkpoint(tmp_path / "run")
    process.kill()
    process.communicate()
    code, out, err = finish(*again, "--set", "seed=1", "--set", "training.ema=0.5")
    assert code == 2
    assert "other settings, so it cannot be resumed: seed is 0 there and 1 here, training.ema is 0.9 there and" in err
    code, out, _ = finish(*again)
    assert code == 0
    assert "Going on from" in out
    assert (tmp_path / "run" / "report.html").is_file()
    assert finish(*again)[:2] == (0, f"The run in {tmp_path / 'run'} is finished; raise training.steps to train on\n")
    code, _, err = finish("train", "--resume", tmp_path / "run", "--set", "training.steps=4")
    assert code == 2
    assert "training.steps = 8; it can be raised, but not lowered to 4" in err
    code, _, err = finish("train", recipe, "--out", tmp_path / "run")
    assert code == 2
    assert "already holds a run; go on with it by --resume" in err
    code, out, _ = finish("train", "--resume", tmp_path / "run", "--set", "training.steps=10")
    assert code == 0
    assert "Going on from" in out
    steps = [record["step"] for record in read_metrics(tmp_path / "run" / "metrics.jsonl") if "loss" in record]
    assert steps == list(range(1, 11))
    assert "10 steps of 8 pairs" in (tmp_path / "run" / "report.html").read_text()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ((), "nothing to train: give a recipe or files, or --resume FOLDER"),
        (("--resume",), "nothing to train"),
        (("--resume", "a", "--out", "b"), "give the run's folder once"),
        (("--resume", "nowhere"), "nowhere holds no run to resume: there is no config.toml in it"),
    ],
)
def test_resuming_nothing_is_one_sentence(words, sentence, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    code, err = main(["train", *words]), capsys.readouterr().err
    assert (code, err.count("\n")) == (2, 1)
    assert sentence in err


@pytest.mark.slow
def test_killed_again_and_again(tmp_path):
    """The short form of `benchmarks/kill.py`, which says what differs."""
    command = [sys.executable, str(ROOT / "benchmarks" / "kill.py"), "--kills", "3", "--steps", "60"]
    done = subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("identical") == 4


@pytest.mark.slow
def test_killed_before_the_first_checkpoint_starts_anew(tmp_path):
    recipe = write_recipe(tmp_path)
    process = start(*long(recipe, tmp_path / "run", "training.checkpoint_every=0"))
    deadline = time.monotonic() + 120
    while not read_metrics(tmp_path / "run" / "metrics.jsonl"):
        assert time.monotonic() < deadline
        time.sleep(0.001)
    process.kill()
    process.communicate()
    assert not step_folders(tmp_path / "run")
    first = read_metrics(tmp_path / "run" / "metrics.jsonl")[:2]
    process = start("train", "--resume", tmp_path / "run", "--set", "training.checkpoint_every=2")
    wait_for_checkpoint(tmp_path / "run")
    process.kill()
    process.communicate()
    assert without_clock(read_metrics(tmp_path / "run" / "metrics.jsonl"))[: len(first)] == without_clock(first)
