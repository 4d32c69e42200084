"""The command line in a process of its own: signals, full disks, closed pipes, all of them real."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest


def process(*words: object, sets: tuple[str, ...] = (), **options: object) -> subprocess.Popen[str]:
    """Starts the command line in a process of its own, with its output kept back until flushed, as is usual."""
    command = [sys.executable, "-m", "equipoise.cli", *map(str, words), *(f"--set={text}" for text in sets)]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    pipes = {"env": environment, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, **(pipes | options))  # type: ignore[call-overload]


def leftovers(folder: Path) -> list[str]:
    """Names only an unfinished write has."""
    return [str(path) for path in folder.rglob("*") if path.suffix in {".tmp", ".old"}]


@pytest.mark.slow
def test_a_full_disk_is_one_sentence(tmp_path: Path, tiny_settings: tuple[str, ...]) -> None:
    """For real: a process that may write no file larger than 40 kB, which the weights are and nothing before them."""

    def little_room() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, 40_000))

    folder = tmp_path / "run"
    running = process("train", "demo", "--out", folder, sets=tiny_settings, preexec_fn=little_room)
    out, err = running.communicate(timeout=120)
    assert (running.returncode, out) == (2, "")
    assert "Traceback" not in err
    said = [line for line in err.splitlines() if line.startswith("equipoise: ")]
    assert said[-1] == err.splitlines()[-1]
    assert all("warning: cannot write" in line and "training goes on" in line for line in said[:-1])
    assert "cannot write" in said[-1]
    assert "File too large" in said[-1]
    assert not leftovers(folder)
    assert not list(folder.rglob("model.safetensors"))


def test_output_that_cannot_be_written_is_one_sentence_or_none() -> None:
    """A full disk behind `>`, and a reader of a pipe who has seen enough."""
    with open("/dev/full", "w") as full:
        listing = process("recipes", stdout=full)
        _, err = listing.communicate(timeout=60)
    assert listing.returncode == 2
    assert err == "equipoise: [Errno 28] No space left on device; check the disk and the paths given\n"
    reader, writer = os.pipe()
    os.close(reader)
    listing = process("recipes", stdout=writer)
    os.close(writer)
    _, err = listing.communicate(timeout=60)
    assert (listing.returncode, err) == (0, "")
