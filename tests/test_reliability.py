"""The benches that watch long runs: kills of every command in short, and what counts as flat."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from soak import verdict

ROOT = Path(__file__).parents[1]
COMMANDS = [
    "embed",
    "index",
    "regions",
    "data prepare",
    "scenes write",
    "clean",
    "clean, two rounds",
    "claims run",
    "finetune",
]
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_killed_and_started_again_ends_with_the_same_bytes(command):
    """The short form of `make kills`, which names the files that differ."""
    words = [sys.executable, str(ROOT / "benchmarks" / "kills.py"), "--kills", "3", "--only", command]
    done = subprocess.run(words, capture_output=True, text=True, env=ENVIRONMENT, timeout=900, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "none" in done.stdout


def samples(memory: float, files: float) -> list[tuple[float, int, float, int]]:
    """Of 1,000 steps in which so many MiB and descriptors were added."""
    return [(step, step, 400 + memory * step / 1000, 20 + int(files * step / 1000)) for step in range(0, 1000, 10)]


@pytest.mark.parametrize(
    ("memory", "files", "left", "status"),
    [(0, 0, [], 0), (2, 0, [], 0), (40, 0, [], 1), (0, 10, [], 1), (0, 0, ["x.1.tmp"], 1)],
    ids=["flat", "a little", "memory", "descriptors", "a temporary file"],
)
def test_what_counts_as_flat(memory, files, left, status, capsys):
    assert verdict(samples(memory, files), 1000, left, []) == status
    assert ("NOT FLAT" in capsys.readouterr().out) == bool(status)
