"""`train --clean` on two processes: the first judges, whatever ends one ends both, and the keep file is that of one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from judged_features import words
from started_once import ROOT

from equipoise.data.keep.file import NOTE, TABLE
from equipoise.io.json_files import read_json_table

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="reads /proc"),
]
LAUNCH = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2")


def started(*arguments: str | Path, launch: tuple[str, ...] = LAUNCH) -> subprocess.Popen[str]:
    command = [sys.executable, *launch, "-m", "equipoise", "train", *map(str, arguments)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdout=pipe, stderr=subprocess.STDOUT, text=True, env=environment, cwd=ROOT)


def ended(process: subprocess.Popen[str]) -> str:
    try:
        return process.communicate(timeout=240)[0]
    finally:
        process.terminate()


def own_messages(said: str) -> list[str]:
    return [line for line in said.splitlines() if line.startswith("equipoise: ") and "warning" not in line]


@pytest.fixture(scope="module")
def alone(noisy, tmp_path_factory) -> Path:
    """The same run by one process."""
    folder = tmp_path_factory.mktemp("alone") / "run"
    process = started("features", *noisy, "--clean", "--out", folder, launch=())
    said = ended(process)
    assert process.returncode == 0, said[-3000:]
    return folder


def decided(folder: Path) -> list[bytes]:
    return [(folder / "clean" / name).read_bytes() for name in (TABLE, NOTE)]


def pid_of_rank(launcher: int, rank: int) -> int:
    for pid in Path(f"/proc/{launcher}/task/{launcher}/children").read_text().split():
        if f"RANK={rank}" in Path(f"/proc/{pid}/environ").read_text().split("\0"):
            return int(pid)
    raise AssertionError(f"rank {rank} is gone")


def test_two_processes_keep_what_one_keeps_and_train_on_it(alone, noisy, tmp_path):
    process = started("features", *noisy, "--clean", "--out", tmp_path / "run")
    said = ended(process)
    assert process.returncode == 0, said[-3000:]
    assert said.count("captions are dropped") == said.count("The report is") == 1
    assert decided(tmp_path / "run") == decided(alone)
    digests = [read_json_table(folder / "kept.json")["digest"] for folder in (tmp_path / "run", alone)]
    assert digests[0] == digests[1]
    key = "retrieval/text_to_image_R@5"
    mine, theirs = (read_json_table(folder / "metrics.json")[key] for folder in (tmp_path / "run", alone))
    assert mine == pytest.approx(theirs, abs=0.05)


@pytest.mark.parametrize(
    ("rank", "number", "sentence"),
    [
        (0, signal.SIGKILL, ""),  # torchrun ends the other, which has nothing to say
        (1, signal.SIGKILL, "equipoise: another process of this run died"),
        (0, signal.SIGTERM, "Stopped while pairs were judged; go on with: equipoise train --resume"),
    ],
)
def test_what_ends_one_while_pairs_are_judged_ends_both_and_they_go_on(alone, noisy, tmp_path, rank, number, sentence):
    run, steps = tmp_path / "run", words({"training.checkpoint_every": 1})
    process = started("features", *noisy, *steps, "--clean", "--out", run)
    seen, deadline = run / "clean" / "fold-2-of-2-seed-0" / "checkpoints", time.monotonic() + 120
    while not seen.exists():
        assert time.monotonic() < deadline
        time.sleep(0.005)
    ranks = [pid_of_rank(process.pid, one) for one in (0, 1)]
    os.kill(ranks[rank], number)
    said = ended(process)
    assert process.returncode != 0
    assert not (run / "clean" / NOTE).exists()
    assert not any(Path(f"/proc/{pid}").exists() for pid in ranks)
    assert sentence in said
    assert len(own_messages(said)) == sentence.startswith("equipoise")
    process = started("--resume", run)
    said = ended(process)
    assert process.returncode == 0, said[-3000:]
    assert (run / "clean" / TABLE).read_bytes() == decided(alone)[0]


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"clean.folds": 150}, "cannot be judged in 150 folds"),
        ({"clean.online": True, "clean.rule": "weights"}, "clean.online judges pairs in one process"),
    ],
)
def test_a_mistake_is_one_sentence_of_all(noisy, tmp_path, settings, sentence):
    process = started("features", *noisy, *words(settings), "--clean", "--out", tmp_path / "run")
    said = ended(process)
    assert process.returncode != 0
    assert len(own_messages(said)) == 1, said[-3000:]
    assert sentence in own_messages(said)[0]
