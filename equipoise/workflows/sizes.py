"""Sizes that follow the data: batch, steps and what goes with them, for a run whose recipe was not written for it."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from typing import Any

from equipoise.config import Run, load_layers
from equipoise.settings.layers import Layer
from equipoise.training.settings import Training
from equipoise.types import UserError

EPOCHS = 30  # at most, where nobody has said how many
BATCHES = 4  # per epoch, at least
HELD_OUT, MOST_HELD_OUT = 100, 0.2  # records for validation, where these are no larger a share


def validation_share(records: int, usual: float) -> float:
    """The share of records to hold out: the usual one, larger where that would be too few to measure anything with."""
    return round(min(MOST_HELD_OUT, max(usual, HELD_OUT / max(1, records))), 4)


def largest_batch(samples: int) -> int:
    """A power of 2 that leaves several batches per epoch."""
    return max(2, 2 ** int(math.log2(max(2, samples // BATCHES))))


def _rhythm(training: Training, steps: int) -> dict[str, Any]:
    """How often a run of so many steps logs, evaluates and saves."""
    often = {"evaluate_every": max(1, steps // 5), "checkpoint_every": max(1, steps // 2)}
    kept = {name: min(getattr(training, name), most) for name, most in often.items()}  # 0 stays: never
    return {
        "warmup_steps": min(training.warmup_steps, steps // 10),
        "log_every": max(1, min(training.log_every, steps // 20)),
        **kept,
    }


def count_samples(run: Run) -> int:
    """The number of training samples; what there is to say of the data is said when the run begins."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return len(run.training_pairs())


def sizes_layer(layers: tuple[Layer, ...], epochs: float | None = None, *, follow: bool) -> tuple[Layer, str]:
    """The sizes as a layer of settings over `layers`, the last of which is the command line, and a sentence about them.

    What the command line names is left as it is, but for a batch larger than the data. With `follow` all other sizes
    follow the data; without, the batch where it is too large, and steps by `epochs`.
    """
    run, named = load_layers(*layers).run, _named(layers[-1])
    _require_sense(epochs, named)
    samples, training = count_samples(run), run.training
    batch = training.batch_size
    if batch > (largest_batch(samples) if follow and "batch_size" not in named else samples):
        batch = largest_batch(samples)
    steps = _steps(training, samples // batch, epochs, follow=follow and "steps" not in named)
    wanted = {"batch_size": batch, "steps": steps}
    if follow or epochs:
        wanted |= {name: value for name, value in _rhythm(training, steps).items() if name not in named}
    changed = {name: value for name, value in wanted.items() if value != getattr(training, name)}
    return Layer("the size of the data", {"training": changed}, {}), _told(samples, batch, steps)


def _steps(training: Training, per_epoch: int, epochs: float | None, *, follow: bool) -> int:
    if epochs:
        return math.ceil(epochs * max(1, per_epoch))
    return min(training.steps, EPOCHS * max(1, per_epoch)) if follow else training.steps


def _told(samples: int, batch: int, steps: int) -> str:
    epochs = steps / max(1, samples // batch)
    return f"{samples:,} training samples: batches of {batch}, {steps:,} steps ({epochs:.3g} epochs)"


def _named(command_line: Layer) -> dict[str, Any]:
    named = command_line.values.get("training", {})
    return dict(named) if isinstance(named, Mapping) else {}


def _require_sense(epochs: float | None, named: Mapping[str, Any]) -> None:
    if epochs is None:
        return
    if not 0 < epochs < math.inf:
        raise UserError(f"--epochs is {epochs:g}; give a number above 0")
    if "steps" in named:
        raise UserError("--epochs and --set training.steps say the same; give one of them")
