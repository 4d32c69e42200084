"""Numbers that are not finite, found out late: the weights stay those before the bad step, as where each is read."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from equipoise.config import Loaded, dump
from equipoise.data.batches import Batches
from equipoise.kernels import Scoring
from equipoise.models.folder import step_folders
from equipoise.models.model import Model
from equipoise.objectives import CLIP, Objective
from equipoise.training import step as step_module
from equipoise.training.finite import Deferred, Immediate, NotFinite
from equipoise.training.loop import TrainResult, train
from equipoise.training.optimizer import make_optimizer
from equipoise.training.settings import Training
from equipoise.types import Batch, Embeddings, Loss, UserError

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def fused(model: nn.Module, settings: Training) -> torch.optim.AdamW:
    """The optimizer as it is on a GPU; a CPU has the same kernel, which skips steps by the same flag."""
    plain = make_optimizer(model, settings)
    return torch.optim.AdamW(
        [{name: group[name] for name in ("params", "weight_decay", "speed")} for group in plain.param_groups],
        lr=settings.learning_rate, betas=settings.betas, eps=settings.epsilon, fused=True,
    )  # fmt: skip


@dataclass(frozen=True)
class Breaking(Objective):
    """CLIP's loss with a term that breaks once, in its value or in its gradient alone."""

    needs = ("image", "text")
    at: int = 5
    how: str = "nan"
    named: bool = True  # whether the term is there in every step
    calls: Iterator[int] = field(default_factory=lambda: count(1))

    def loss(self, embeddings: Embeddings, batch: Batch | None, scoring: Scoring) -> Loss:
        contrastive = CLIP().loss(embeddings, batch, scoring.without_bias()).total
        scale, number = torch.as_tensor(scoring.log_scale), next(self.calls)
        extra = scale * 0
        if number == self.at and self.how == "gradient":
            extra = (scale - scale.detach()).clamp(min=0).sqrt()  # 0, with an infinite slope
        elif number == self.at:
            extra = scale * float(self.how)
        terms = {"contrastive": contrastive, **({"extra": extra} if self.named or number >= self.at else {})}
        return Loss(contrastive + extra, terms)


def run(tiny: Loaded, model: Model, batches: Any, folder: Path, objective: Objective, **settings: Any) -> TrainResult:
    training = replace(Training(steps=12, batch_size=16, log_every=12, checkpoint_every=3, device="cpu"), **settings)
    return train(model, objective, batches, training, folder=folder, config=dump(tiny.table))


def weights(model: Model) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


@dataclass
class Watched:
    """Batches that note the weights before each step."""

    batches: Batches
    model: Model
    path: list[dict[str, Tensor]] = field(default_factory=list)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.batches, name)

    def starting_at(self, position: int) -> Iterator[Batch]:
        for number in count(position):
            self.path.append(weights(self.model))
            yield self.batches.batch(number)


@pytest.mark.parametrize(
    ("how", "sentence"),
    [
        ("nan", r"the loss became nan \(terms: extra = nan\) at step 5"),
        ("inf", r"the loss became inf \(terms: extra = inf\) at step 5"),
        ("gradient", r"the gradient became (nan|inf) at step 5"),
    ],
)
@pytest.mark.parametrize("named", [True, False])
def test_late_is_as_early(monkeypatch, tiny, model, batches, tmp_path, how, sentence, named):
    monkeypatch.setattr(step_module, "make_optimizer", fused)
    start, ends, watched = weights(model), {}, Watched(batches, model)
    for check in ("deferred", "immediate"):
        model.load_state_dict(start)
        watched = Watched(batches, model)
        if check == "immediate":
            monkeypatch.setattr(step_module, "_finite_check", lambda optimizer: Immediate())
        last = tmp_path / check / "checkpoints" / "step-00000003"
        with pytest.raises(UserError, match=rf"{sentence}, .* checkpoint is {last}\. "):
            run(tiny, model, watched, tmp_path / check, Breaking(how=how, named=named))
        assert [path.name for path in step_folders(tmp_path / check)] == ["step-00000003"]
        assert len(watched.path) == (6 if check == "deferred" else 5)  # found when the next checkpoint was due
        ends[check] = weights(model)
    assert ends["deferred"].keys() == ends["immediate"].keys()
    for name, tensor in ends["immediate"].items():
        assert torch.equal(ends["deferred"][name], tensor), name
        assert torch.equal(tensor, watched.path[4][name]), name  # those before step 5


@pytest.mark.parametrize("settings", [{"log_every": 2}, {"checkpoint_every": 2}, {"steps": 6}], ids=str)
def test_it_is_found_when_something_is_due(monkeypatch, tiny, model, batches, tmp_path, settings):
    monkeypatch.setattr(step_module, "make_optimizer", fused)
    watched = Watched(batches, model)
    with pytest.raises(UserError, match="at step 5"):
        run(tiny, model, watched, tmp_path, Breaking(), **{"checkpoint_every": 0, **settings})
    assert len(watched.path) == 6


def test_a_good_run_is_the_same(monkeypatch, tiny, model, batches, tmp_path):
    monkeypatch.setattr(step_module, "make_optimizer", fused)
    start, found = weights(model), []
    for check in ("deferred", "immediate"):
        model.load_state_dict(start)
        if check == "immediate":
            monkeypatch.setattr(step_module, "_finite_check", lambda optimizer: Immediate())
        outcome = run(tiny, model, batches, tmp_path / check, CLIP(), log_every=2, steps=4)
        found.append([(record["loss"], record["grad_norm"]) for record in outcome.records])
    assert found[0] == found[1]
    assert len(found[0]) == 2


def test_only_the_first_bad_step_is_told():
    weight = nn.Parameter(torch.ones(3, device=DEVICE))
    optimizer = torch.optim.AdamW([weight], fused=True)
    check = Deferred(optimizer, DEVICE)
    for step, total in enumerate([1.0, math.nan, 2.0, math.inf], 1):
        before = weight.detach().clone()
        weight.grad = torch.full((3,), total, device=DEVICE)
        loss = Loss(weight.grad[0], {"one": weight.grad[1]})
        check.loss(loss)
        check.gradient(weight.grad.norm(), loss, step)
        optimizer.step()
        assert torch.equal(weight, before) == (step > 1)
    assert optimizer.state[weight]["step"] == 1
    with pytest.raises(NotFinite, match="the loss became nan") as raised:
        check.settle()
    assert raised.value.step == 2
