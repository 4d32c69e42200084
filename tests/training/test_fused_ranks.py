"""Two processes and a matching head: each draws negatives among its own pairs, and the rest is as in one process."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from small_model import objective_named, part_of, random_batch, small_model
from started_once import once, run_ranks

from equipoise.training.distributed.dtensors import local_part
from equipoise.training.distributed.ranks import Ranks
from equipoise.training.ema import EMA
from equipoise.training.settings import Training
from equipoise.training.step import Step

WORKER = Path(__file__).parent / "two_fused_ranks.py"
CASES = [("albef", "class_token", "ddp"), ("tcl", "code_book", "ddp"), ("tcl", "class_token", "fsdp")]
BATCH = random_batch(8, 3)


def started(name: str, readout: str, parallel: str, ranks: Ranks | None = None) -> tuple[Step, EMA]:
    """A step, and an average of other weights."""
    objective = objective_named(name)
    model = small_model(readout=readout, heads=objective.heads).train()
    step = Step(model, objective, Training(ema=0.5, parallel=parallel), torch.device("cpu"), ranks)
    average = EMA(model, 0.5)
    for number, weights in enumerate(average.weights.values()):
        local_part(weights).mul_(1 + 0.1 * (number % 3))
    return step, average


def drawing(rank: int) -> None:
    """The random numbers that a process draws by."""
    torch.manual_seed(100 + rank)


def by_hand(step: Step, average: EMA) -> float:
    """The loss of the whole batch, whose halves were embedded one after the other, each with its own negatives."""
    parts = [part_of(BATCH, rank, 2) for rank in (0, 1)]
    taught = [step._teach(part, average) for part in parts]
    seen = []
    for rank, (part, made) in enumerate(zip(parts, taught, strict=True)):
        drawing(rank)
        seen.append(step._embed(replace(part, common={role: made[role] for role in step.objective.shown})).roles())
    roles = {role: torch.cat([one[role] for one in seen]) for role in seen[0]}
    roles |= {role: torch.cat([one[role] for one in taught]) for role in taught[0] if role in step.objective.needs}
    loss = step.loss(roles, BATCH)
    loss.total.backward()
    return loss.total.item()


@pytest.fixture(scope="module")
def two_ranks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return once(tmp_path_factory, "two_fused_ranks", lambda out: run_ranks(2, WORKER, [out]))


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids="-".join)
def test_two_ranks_have_the_gradients_of_the_whole_batch(case, two_ranks):
    step, average = started(*case)
    two = load_file(two_ranks / f"{'-'.join(case)}.safetensors")
    assert float(two.pop("loss")) == pytest.approx(by_hand(step, average), abs=1e-10)
    for role in ("image_queue", "text_queue"):
        torch.testing.assert_close(two.pop(role), step.model.recall((role,))[role], rtol=0, atol=1e-12)
    for name, parameter in step.model.named_parameters():
        grad = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad  # class tokens nobody reads
        torch.testing.assert_close(
            two.get(name, torch.zeros_like(grad)), grad, rtol=0, atol=1e-10, msg=lambda text, n=name: f"{n}: {text}"
        )
