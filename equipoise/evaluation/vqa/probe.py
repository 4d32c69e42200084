"""The non-linear probe on questions about pictures: a small head on frozen features chooses among answers.

Chen et al. 2023 (FDT), App. B.2: "a fully-connected layer with GELU activation and a fully-connected layer" on the
features of image and question, concatenated; AdamW, learning rate 0.005, decayed to 0 by a cosine.

    z = W₂ gelu(W₁ [u; v] + b₁) + b₂        loss = Σ_a BCE(σ(z_a), y_a), mean over questions

u, v [d] points of image and question, z [A] a score for each of the A most frequent answers of the training questions,
y_a the accuracy of answer a by VQA's rule (`answers.py`), the usual target since Teney et al. 2018, "Tips and
Tricks for Visual Question Answering". The paper names neither the loss, the hidden width, the epochs, the batch nor A;
3,129 is usual on VQA v2. Questions to train on none of whose answers is among the A are left out; to test on, none is.

Features are held once a picture and once a text; a batch gathers its own. Without the pictures, the same head learns
what the questions alone give away.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from equipoise.data.rng import generator
from equipoise.types import UserError

Scores = Mapping[str, float]  # of the answers to one question, the most frequent first
OnStep = Callable[[int, float], object]  # given steps done and loss
AT_ONCE = 4096  # questions answered


@dataclass(frozen=True)
class VqaProbeSettings:
    answers: int = 3129
    hidden: int = 1024
    epochs: int = 20
    batch_size: int = 512
    learning_rate: float = 5e-3
    weight_decay: float = 0.01
    seed: int = 0

    def __post_init__(self) -> None:
        for name, least in (("answers", 2), ("hidden", 1), ("epochs", 1), ("batch_size", 1)):
            if getattr(self, name) < least:
                raise UserError(f"--{name.replace('_', '-')} must be at least {least}, not {getattr(self, name)}")
        if not 0 < self.learning_rate < math.inf:
            raise UserError(f"--learning-rate must be above 0, not {self.learning_rate}")

    def steps(self, questions: int) -> int:
        return self.epochs * math.ceil(questions / self.batch_size)


@dataclass(frozen=True)
class Inputs:
    """Features of some things, each held once, and which of them belongs to each question."""

    parts: tuple[tuple[Tensor, Tensor], ...]  # [M, d] and [N]

    def __len__(self) -> int:
        return len(self.parts[0][1])

    @property
    def width(self) -> int:
        return sum(features.shape[1] for features, _ in self.parts)

    def rows(self, chosen: Tensor) -> Tensor:
        """[n, width]"""
        return torch.cat([features[which[chosen]] for features, which in self.parts], dim=1)

    def select(self, chosen: Tensor) -> Inputs:
        return Inputs(tuple((features, which[chosen]) for features, which in self.parts))


def frequent_answers(scores: Sequence[Scores], most: int) -> list[str]:
    """The answers that most questions have as their most frequent one; of equals, the first in the alphabet."""
    counts = Counter(next(iter(one)) for one in scores if one)
    if len(counts) < 2:
        only = f' "{next(iter(counts))}"' if counts else " empty"
        raise UserError(f"all questions to train on have the same answer,{only}, so there is nothing to learn")
    return sorted(counts, key=lambda answer: (-counts[answer], answer))[:most]


def answerable(scores: Sequence[Scores], answers: Sequence[str]) -> Tensor:
    """The numbers of the questions that one of these answers is right for."""
    known = set(answers)
    return torch.tensor([number for number, one in enumerate(scores) if not known.isdisjoint(one)], dtype=torch.long)


class Targets:
    """How right each answer is to each question, kept as the few that are not 0."""

    def __init__(self, scores: Sequence[Scores], answers: Sequence[str], device: torch.device | str = "cpu"):
        place = {answer: number for number, answer in enumerate(answers)}
        known = [{place[answer]: right for answer, right in one.items() if answer in place} for one in scores]
        most, self.count = max(map(len, known)), len(answers)
        self.which = torch.tensor([[*one, *[0] * (most - len(one))] for one in known], device=device)
        self.right = torch.tensor([[*one.values(), *[0.0] * (most - len(one))] for one in known], device=device)

    def rows(self, chosen: Tensor) -> Tensor:
        """[n, A]"""
        rows = self.right.new_zeros(len(chosen), self.count)
        return rows.scatter_add_(1, self.which[chosen], self.right[chosen])


class AnswerHead(nn.Module):
    def __init__(self, width: int, settings: VqaProbeSettings, answers: int):
        super().__init__()
        self.first, self.second = nn.Linear(width, settings.hidden), nn.Linear(settings.hidden, answers)
        chance = generator(settings.seed, "vqa head")
        for layer in (self.first, self.second):  # torch's own law, from a generator of our own
            for parameter in (layer.weight, layer.bias):
                nn.init.uniform_(parameter, -(layer.in_features**-0.5), layer.in_features**-0.5, generator=chance)

    def forward(self, features: Tensor) -> Tensor:
        return self.second(F.gelu(self.first(features)))


def train_head(
    inputs: Inputs, targets: Targets, settings: VqaProbeSettings, on_step: OnStep = lambda *_: None
) -> AnswerHead:
    device = inputs.parts[0][0].device
    head = AnswerHead(inputs.width, settings, targets.count).to(device)
    optimizer = torch.optim.AdamW(head.parameters(), lr=settings.learning_rate, weight_decay=settings.weight_decay)
    steps, step = settings.steps(len(inputs)), 0
    for epoch in range(settings.epochs):
        order = torch.randperm(len(inputs), generator=generator(settings.seed, "vqa order", epoch))
        for chosen in order.to(device).split(settings.batch_size):
            optimizer.param_groups[0]["lr"] = rate(step / steps, settings.learning_rate)
            loss = F.binary_cross_entropy_with_logits(head(inputs.rows(chosen)), targets.rows(chosen), reduction="sum")
            loss = loss / len(chosen)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            on_step(step, loss.item())
    return head


def rate(done: float, highest: float) -> float:
    """Half a cosine, from `highest` down to 0."""
    return highest * 0.5 * (1 + math.cos(math.pi * done))


@torch.no_grad()
def predict(head: AnswerHead, inputs: Inputs, answers: Sequence[str]) -> list[str]:
    """The answer with the largest score to each question."""
    numbers = torch.arange(len(inputs), device=inputs.parts[0][0].device)
    best = [head(inputs.rows(batch)).argmax(dim=1) for batch in numbers.split(AT_ONCE)]
    return [answers[number] for number in torch.cat(best).tolist()]
