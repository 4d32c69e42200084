"""Work that is done once for all of pytest's workers, such as starting several processes; the others wait for it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def once(factory: pytest.TempPathFactory, name: str, work: Callable[[Path], None]) -> Path:
    """The folder into which `work` wrote."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        out = factory.mktemp(name)
        work(out)
        return out
    out = factory.getbasetemp().parent / name  # the folder that pytest's workers share
    try:
        out.mkdir()
    except FileExistsError:
        for _ in range(3000):
            if (out / "ended").exists():
                break
            time.sleep(0.1)
        assert (out / "ended").read_text() == "well", "this work failed in another worker of pytest; see there"
        return out
    ended = "badly"
    try:
        work(out)
        ended = "well"
    finally:
        (out / "ending").write_text(ended)
        (out / "ending").rename(out / "ended")  # nobody reads half a word
    return out


def run_ranks(count: int, script: Path, arguments: Sequence[str | Path]) -> None:
    """A script of the tests on several ranks."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={count}"]
    beside = os.pathsep.join(map(str, (ROOT, ROOT / "tests", ROOT / "benchmarks", script.parent)))
    done = subprocess.run(
        [*command, str(script), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env={**os.environ, "PYTHONPATH": beside},
    )
    assert done.returncode == 0, done.stderr[-3000:]
