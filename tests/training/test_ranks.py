"""Two processes give the losses, gradients and temperature of one with the same batch: gloo, DDP and FSDP2."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from small_model import objective_named, random_batch, small_model

from equipoise.training.ranks import Ranks, require_one_process
from equipoise.training.settings import Training
from equipoise.training.step import Step
from equipoise.types import UserError

WORKER = Path(__file__).parent / "two_ranks.py"


def one_rank(objective: str, steps: int = 3) -> tuple[list[float], dict[str, torch.Tensor]]:
    model = small_model().train()
    step = Step(model, objective_named(objective), Training(learning_rate=1e-2, warmup_steps=0), torch.device("cpu"))
    losses = [step(random_batch(12, seed), seed).loss.total.item() for seed in range(1, steps + 1)]
    return losses, {name: t.detach() for name, t in model.state_dict().items()}


@pytest.mark.parametrize("objective", ["clip", "softclip"])  # without and with a target made of points
@pytest.mark.parametrize(
    ("parallel", "micro", "impl"),
    [
        ("ddp", 0, "eager"),
        ("ddp", 0, "tiled"),
        ("ddp", 2, "eager"),
        ("ddp", 4, "tiled"),
        ("fsdp", 0, "eager"),
        ("fsdp", 4, "tiled"),
    ],
)
def test_two_ranks_equal_one(objective, parallel, micro, impl, tmp_path):
    """open_clip #616, #894: gather flags that silently scale gradients. Here weights after three steps agree."""
    losses, weights = one_rank(objective)
    out = tmp_path / "two.safetensors"
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", str(WORKER)]
    arguments = [objective, parallel, str(micro), impl, str(out)]
    here = {**os.environ, "PYTHONPATH": str(WORKER.parents[2])}  # the package beside these tests, wherever they run
    done = subprocess.run(command + arguments, capture_output=True, text=True, timeout=180, check=False, env=here)
    assert done.returncode == 0, done.stderr[-3000:]
    two = load_file(out)
    torch.testing.assert_close(two.pop("losses"), torch.tensor(losses).double(), rtol=0, atol=1e-10)
    for name, tensor in weights.items():
        torch.testing.assert_close(two[name], tensor, rtol=0, atol=1e-9, msg=lambda text, name=name: f"{name}: {text}")


def test_a_run_among_several_processes_is_refused(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(UserError, match="2 processes were started, but a run trains in one; start it without torchrun"):
        require_one_process()


def test_a_batch_that_cannot_be_shared_is_refused():
    with pytest.raises(UserError, match="batch_size 13 cannot be shared by 2 processes"):
        Ranks(0, 2).part_of(13)
