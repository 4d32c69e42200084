"""`torchrun --max-restarts 1`: a rank that is killed comes back with the others, and the run ends as if undisturbed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from small_run import without_clock, write_recipe
from test_kill import ENVIRONMENT, ROOT, wait_for_checkpoint

from equipoise.cli import main
from equipoise.training.logging.metrics import read_metrics

SETTINGS = ("training.steps=30", "training.checkpoint_every=2", "training.evaluate_every=15")
WORDS = [word for setting in SETTINGS for word in ("--set", setting)]


def torchrun(recipe: Path, *words: str | Path) -> subprocess.Popen[str]:
    launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "--max-restarts=1"]
    command = [sys.executable, *launch, "-m", "equipoise", "train", str(recipe), *WORDS, *map(str, words)]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=ENVIRONMENT, cwd=ROOT
    )


def pid_of_rank(launcher: int, rank: int) -> int:
    for pid in Path(f"/proc/{launcher}/task/{launcher}/children").read_text().split():
        if f"RANK={rank}" in Path(f"/proc/{pid}/environ").read_text().split("\0"):
            return int(pid)
    raise AssertionError(f"rank {rank} is gone")


def finish(process: subprocess.Popen[str]) -> str:
    try:
        said = process.communicate(timeout=180)[0]
    finally:
        process.terminate()  # torchrun ends its ranks
    assert process.returncode == 0, said[-3000:]
    return said


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize(("rank", "parallel"), [(0, "ddp"), (1, "fsdp")])
def test_a_killed_rank_comes_back_and_no_number_changes(tmp_path, rank, parallel):
    """Rank 0 holds the folder's lock, the other nothing."""
    recipe = write_recipe(tmp_path)
    words = ("--set", f"training.parallel={parallel}")
    finish(torchrun(recipe, *words, "--out", tmp_path / "left alone"))
    run = torchrun(recipe, *words, "--out", tmp_path / "killed", "--resume")
    wait_for_checkpoint(tmp_path / "killed")
    time.sleep(0.3)
    os.kill(pid_of_rank(run.pid, rank), signal.SIGKILL)
    said = finish(run)
    assert "Traceback" not in "\n".join(line for line in said.splitlines() if "torch/distributed" not in line)
    one, two = (read_metrics(tmp_path / name / "metrics.jsonl") for name in ("left alone", "killed"))
    assert without_clock(one) == without_clock(two)
    one, two = ((tmp_path / name / "model.safetensors").read_bytes() for name in ("left alone", "killed"))
    assert one == two


@pytest.mark.parametrize("words", [("train", "RECIPE"), ("finetune", "MODEL", "DATA")])
def test_a_command_that_would_begin_anew_is_told_how_to_go_on(tmp_path, monkeypatch, capsys, words):
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "1")
    named = {"RECIPE": write_recipe(tmp_path), "MODEL": tmp_path, "DATA": tmp_path}
    assert main([*(str(named.get(word, word)) for word in words), "--out", str(tmp_path / "run")]) == 2
    assert "--resume" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()
