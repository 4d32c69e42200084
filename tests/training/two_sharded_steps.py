"""What each of two processes does in test_sharded_steps.py: it asserts for itself, on its own shards."""

from __future__ import annotations

import math
from typing import Any

import torch
from small_model import objective_named, part_of, random_batch, small_model
from test_deferred_finite import Breaking, fused
from torch import Tensor

from equipoise.encoders.recomputation import CHEAP
from equipoise.training import step as step_module
from equipoise.training.distributed.dtensors import is_sharded, local_part
from equipoise.training.distributed.process_group import process_group
from equipoise.training.distributed.ranks import Ranks
from equipoise.training.finite import Deferred, Immediate, NotFinite
from equipoise.training.settings import Training
from equipoise.training.step import Step

CPU = torch.device("cpu")
State = dict[str, Tensor]


def gradients(parallel: str, micro: int, ranks: Ranks, **settings: Any) -> State:
    training = Training(parallel=parallel, micro_batch=micro, **settings)
    step = Step(small_model().train(), objective_named("clip"), training, CPU, ranks)
    step._backward(part_of(random_batch(8, 3), *ranks.share))
    named = step.model.named_parameters()
    return {name: local_part(weight.grad).clone() for name, weight in named if weight.grad is not None}


def recomputed_or_not(ranks: Ranks) -> None:
    for parallel in ("ddp", "fsdp"):
        for micro in (0, 2):
            plain, cheap = (gradients(parallel, micro, ranks, recompute_activations=how) for how in (False, CHEAP))
            assert plain
            assert plain.keys() == cheap.keys()
            assert [name for name in plain if not torch.equal(plain[name], cheap[name])] == []


def state(step: Step) -> State:
    """This rank's weights and moments."""
    named = dict(step.model.named_parameters())
    moments = {
        f"{name} {kind}": value
        for name, weight in named.items()
        for kind, value in step.optimizer.state.get(weight, {}).items()
    }
    return {name: local_part(tensor.detach()).clone() for name, tensor in (named | moments).items()}


def broken_run(parallel: str, how: str, check: str, ranks: Ranks) -> tuple[State, str]:
    """Six steps of which the third is bad: what is left at the end or when it raised, and what was said."""
    step_module._finite_check = (
        (lambda _: Immediate()) if check == "immediate" else FINITE_CHECK  # type: ignore[assignment]
    )
    settings = Training(parallel=parallel, learning_rate=1e-2, warmup_steps=0, steps=6)
    step = Step(small_model().train(), Breaking(at=3, how=how), settings, CPU, ranks)
    assert isinstance(step.finite, Deferred if check == "deferred" else Immediate)
    assert any(is_sharded(weight) for weight in step.model.parameters()) == (parallel == "fsdp")
    try:
        for number in range(1, 7):
            step(part_of(random_batch(8, number), *ranks.share), number)
            if check == "deferred":
                assert type(step.finite.found) is Tensor
                assert ranks.highest(int(step.finite.found)) == [int(number >= 3)]
                assert ranks.total(int(step.finite.found)) == 2 * (number >= 3)
        step.finite.settle()
    except NotFinite as problem:
        return state(step), f"{problem} at {problem.step or number}"
    raise AssertionError("nothing was raised")


def late_is_as_early(ranks: Ranks) -> None:
    step_module.make_optimizer = fused
    for parallel in ("fsdp", "ddp"):
        for how in ("nan", "inf", "gradient"):
            late, early = (broken_run(parallel, how, check, ranks) for check in ("deferred", "immediate"))
            assert late[1] == early[1], (parallel, how)
            assert late[1].endswith(" at 3"), late[1]
            assert late[0].keys() == early[0].keys()
            assert any(name.endswith("exp_avg_sq") for name in late[0])
            for name, tensor in early[0].items():
                assert torch.equal(late[0][name], tensor), (parallel, how, name)
                assert math.isfinite(float(tensor.double().sum())), name


FINITE_CHECK = step_module._finite_check
torch.set_num_threads(1)
with process_group() as ranks:
    recomputed_or_not(ranks)
    late_is_as_early(ranks)
