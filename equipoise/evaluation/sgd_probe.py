"""A linear map on frozen features, trained by SGD.

Chen et al. 2021, "An Empirical Study of Training Self-Supervised Vision Transformers" (MoCo v3), in two readings:

- `SGD()`, as Sun and Li 2024, App. A, use it: no momentum, learning rate 1.0 under a cosine with 5 epochs of warm-up,
  100 epochs, batches of 1,024.
- `MOCO_V3`, as published: App. A has batches of 4,096 and the learning rate swept for each case, the released
  `main_lincls.py` momentum 0.9, 90 epochs, a cosine without warm-up, and

      learning rate = base rate · batch / 256

  Neither names the rates of the sweep; `RATES` are ours, around the released code's 0.1 and the 3 of its README. The
  best on validation data is trained once more on training and validation data together.

In both: no weight decay, weights from N(0, 0.01²). We train on features computed once, so there is no augmentation of
pictures (the paper crops and flips); our numbers are therefore a lower bound. Batches are never larger than the data.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from equipoise.data.rng import generator
from equipoise.evaluation.linear_probe import Labelled, LinearProbe, class_count, joined, measured, require_labelled
from equipoise.types import UserError

RATES = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)  # base rates, of batches of 256


@dataclass(frozen=True)
class SGD:
    epochs: int = 100
    warmup_epochs: int = 5
    learning_rate: float = 1.0
    batch_size: int = 1024
    seed: int = 0
    momentum: float = 0.0


MOCO_V3 = SGD(epochs=90, warmup_epochs=0, batch_size=4096, momentum=0.9)


def probe_sgd(train: Labelled, test: Labelled, settings: SGD = SGD()) -> LinearProbe:  # noqa: B008 (frozen)
    """A linear layer trained by SGD on the training features."""
    require_labelled(train, test)
    scores = trained_layer(train, class_count(train, test), settings)(test.features)
    return LinearProbe(measured(_settled(scores), test.classes))


def probe_sgd_sweep(
    train: Labelled,
    validation: Labelled,
    test: Labelled,
    settings: SGD = MOCO_V3,
    rates: Sequence[float] = RATES,
    on_fit: Callable[[], object] = lambda: None,
) -> LinearProbe:
    """The base rate that does best on validation data, trained anew with them; calls `on_fit` after every training."""
    require_labelled(train, validation, test)
    count = class_count(train, validation, test)

    def scores(known: Labelled, base: float, asked: Labelled) -> Tensor:
        batch = min(settings.batch_size, len(known.classes))
        layer = trained_layer(known, count, replace(settings, learning_rate=base * batch / 256))
        on_fit()
        return layer(asked.features)

    found = {}
    for base in rates:
        tried = scores(train, base, validation)
        right = (tried.argmax(dim=1) == validation.classes).double().mean()
        found[base] = float(right) if torch.isfinite(tried).all() else 0.0  # it diverged
    best = max(found, key=lambda base: (found[base], -base))  # of equals, the slowest
    metrics = measured(_settled(scores(joined(train, validation), best, test)), test.classes)
    return LinearProbe(metrics, best, tuple(sorted(found.items())))


def trained_layer(train: Labelled, classes: int, settings: SGD) -> Callable[[Tensor], Tensor]:
    """Gives scores [N, classes] of features."""
    chance, size = generator(settings.seed, "probe"), min(settings.batch_size, len(train.classes))
    layer = nn.Linear(train.features.shape[1], classes)
    nn.init.normal_(layer.weight, std=0.01, generator=chance)
    nn.init.zeros_(layer.bias)
    optimizer = torch.optim.SGD(layer.parameters(), lr=settings.learning_rate, momentum=settings.momentum)
    batches = len(train.classes) // size
    for epoch in range(settings.epochs):
        order = torch.randperm(len(train.classes), generator=chance)
        for number in range(batches):
            optimizer.param_groups[0]["lr"] = rate(epoch + number / batches, settings)
            chosen = order[number * size : (number + 1) * size]
            loss = F.cross_entropy(layer(train.features[chosen].float()), train.classes[chosen])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    @torch.no_grad()
    def scores(features: Tensor) -> Tensor:
        return layer(features.float())

    return scores


def _settled(scores: Tensor) -> Tensor:
    if not torch.isfinite(scores).all():
        raise UserError("training the probe diverged: its learning rate is too large for these features; use L-BFGS")
    return scores


def rate(epoch: float, settings: SGD) -> float:
    """Up in a straight line, then half a cosine."""
    if epoch < settings.warmup_epochs:
        return settings.learning_rate * epoch / settings.warmup_epochs
    done = (epoch - settings.warmup_epochs) / (settings.epochs - settings.warmup_epochs)
    return settings.learning_rate * 0.5 * (1 + math.cos(math.pi * done))
