"""The moving average of the weights as a teacher: ALBEF's targets, in one pass, in micro-batches and after a stop."""

from __future__ import annotations

import copy
import math
import signal

import pytest
import torch
from small_model import random_batch, small_model
from small_run import sent, small_run
from test_resume import assert_same

from equipoise.objectives import CLIP
from equipoise.targets import GUIDES, Softened
from equipoise.training.ema import EMA
from equipoise.training.settings import Training
from equipoise.training.step import Step
from equipoise.types import UserError

MOMENTUM = CLIP(target=Softened(beta=0.4, guide=GUIDES["momentum"]))
RECIPE = ("objective.target.name=softened", "objective.target.guide.name=momentum", "training.ema=0.9")


def albef_aloud(student, teacher, batch, beta: float) -> torch.Tensor:
    """Li et al. 2021, Eq. 6: cross-entropy against (1 - β) of the match and β of what the teacher sees."""
    n, t = len(batch), student.logit_scale.detach().exp()
    with torch.no_grad():
        seen = teacher.eval()(batch)
    mine = student(batch)
    total = torch.zeros((), dtype=torch.float64)
    for rows, cols, told, shown in (
        (mine.image, mine.text, seen.image, seen.text),
        (mine.text, mine.image, seen.text, seen.image),
    ):
        for i in range(n):
            judged = [math.exp(float(t * (told[i] @ shown[j]))) for j in range(n)]
            logits = torch.stack([student.logit_scale.exp() * (rows[i] @ cols[j]) for j in range(n)])
            for j in range(n):
                share = (1 - beta) * (i == j) + beta * judged[j] / sum(judged)
                total = total - share * (logits[j] - torch.logsumexp(logits, 0)) / (2 * n)
    return total


def stepped(micro: int, impl: str = "eager"):
    """The gradients of a second step, when average and weights differ."""
    model = small_model().train()
    objective = CLIP(target=MOMENTUM.target, impl=impl)
    step = Step(model, objective, Training(micro_batch=micro, ema=0.7, warmup_steps=0), torch.device("cpu"))
    average = EMA(model, 0.7)
    step(random_batch(6, 1), 1, average)
    average.update(model, 1)
    before = copy.deepcopy(model)
    step.optimizer.zero_grad()
    loss = step._backward(random_batch(6, 2), average)
    return model, before, average, loss


@pytest.mark.parametrize("impl", ["eager", "tiled"])
@pytest.mark.parametrize("micro", [0, 4])
def test_the_average_teaches_as_in_the_paper(micro, impl):
    model, student, average, loss = stepped(micro, impl)
    teacher = copy.deepcopy(student)
    average.put_into(teacher)
    assert not torch.equal(teacher.image_readout.projection, student.image_readout.projection)
    student.zero_grad()
    expected = albef_aloud(student, teacher, random_batch(6, 2), beta=0.4)
    expected.backward()
    assert loss.total.item() == pytest.approx(expected.item(), abs=1e-12)
    for (name, mine), theirs in zip(model.named_parameters(), student.parameters(), strict=True):
        assert torch.equal(mine, theirs), f"{name} was not put back"
        torch.testing.assert_close(mine.grad, theirs.grad, rtol=0, atol=1e-12)


def test_the_teacher_drops_no_patches_and_draws_nothing():
    model = small_model(patch_dropout=0.5).train()
    step = Step(model, MOMENTUM, Training(ema=0.7), torch.device("cpu"))
    state = torch.get_rng_state()
    first, second = (step._teach(random_batch(5), EMA(model, 0.7)) for _ in range(2))
    assert torch.equal(first["momentum_image"], second["momentum_image"])
    assert torch.equal(torch.get_rng_state(), state)
    assert model.training
    assert model.image_encoder.training


def test_a_run_with_a_momentum_teacher_resumes_bit_for_bit(tmp_path):
    alone, run = small_run(tmp_path / "alone", *RECIPE), small_run(tmp_path / "run", *RECIPE)
    alone.go()
    run.go({5: sent(signal.SIGTERM)})
    run.go(resume=True)
    assert_same(run, alone)


def test_without_an_average_there_is_no_teacher(tmp_path):
    with pytest.raises(UserError, match=r"momentum_image, momentum_text.*training\.ema is 0"):
        small_run(tmp_path / "run", *RECIPE, "training.ema=0")
