"""Fine-tuning on two processes ends where one process does."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from finetune_runs import ended, weights
from two_rank_finetuning import ADAPTED, PARALLEL

from equipoise.training.logging.metrics import read_metrics
from equipoise.workflows.finetune_select import read_comparison

pytestmark = pytest.mark.slow  # half a minute of both cores; what ranks do is tested in tests/training
HERE = Path(__file__).parent
LAST = "checkpoints/step-00000008"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, finished_run: Path) -> Path:
    """The folder of all runs: one, ddp, fsdp."""
    out = tmp_path_factory.mktemp("tunings")
    ended(finished_run, out / "one", "lora", *ADAPTED)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": f"{HERE.parent}:{HERE}"}
    done = subprocess.run(
        [*command, HERE / "two_rank_finetuning.py", finished_run, out],
        capture_output=True, text=True, timeout=300, check=False, env=environment,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return out


@pytest.mark.parametrize("parallel", PARALLEL)
def test_two_processes_end_where_one_does(runs, parallel):
    mine, theirs = (read_metrics(runs / run / "metrics.jsonl") for run in ("one", parallel))
    for one, two in zip(mine, theirs, strict=True):
        assert two.get("loss", 0.0) == pytest.approx(one.get("loss", 0.0), rel=1e-4)
    two = weights(runs / parallel / LAST)
    for name, tensor in weights(runs / "one" / LAST).items():
        torch.testing.assert_close(two[name], tensor, rtol=1e-2, atol=1e-3, msg=name)
    assert any(bool(tensor.any()) for name, tensor in two.items() if name.endswith(".adapter.up"))


@pytest.mark.parametrize("parallel", PARALLEL)
def test_two_processes_score_all_places_between(runs, parallel):
    told = read_comparison(runs / parallel)
    assert told.scores[0] == told.before
    assert len(told.scores) == 11
