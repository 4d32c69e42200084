"""Sizes that follow the data: batch, steps and what goes with them, for a run whose recipe was not written for it."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from equipoise.config import Loaded, Run, load_layers
from equipoise.settings.layers import Layer
from equipoise.training.length import layers_by_epochs, steps_for
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


def sizes_layer(layers: tuple[Layer, ...], *, follow: bool) -> tuple[Layer, str]:
    """The sizes as a layer of settings over `layers`, the last of which is the command line, and a sentence about them.

    What the command line names, or the layer that says `training.epochs`, is left as it is, but for a batch larger than
    the data. With `follow` all other sizes follow the data; without, the batch where it is too large, and steps by
    epochs.
    """
    run = load_layers(*layers).run
    samples, training = count_samples(run), run.training
    named = _named(layers_by_epochs(layers) if training.epochs else layers[-1:])
    batch = training.batch_size
    if batch > (largest_batch(samples) if follow and "batch_size" not in named else samples):
        batch = largest_batch(samples)
    steps = _steps(training, samples, batch, follow=follow and "steps" not in named)
    wanted = {"batch_size": batch, "steps": steps}
    if follow or training.epochs:
        wanted |= {name: value for name, value in _rhythm(training, steps).items() if name not in named}
    changed = {name: value for name, value in wanted.items() if value != getattr(training, name)}
    if training.epochs:
        changed["steps"] = steps  # from here on the run goes by steps, even where these are as many
    return Layer("the size of the data", {"training": changed}, {}), _told(samples, batch, steps)


def with_steps(loaded: Loaded) -> Loaded:
    """A run that goes by epochs as one that goes by steps; any other as it is."""
    training = loaded.run.training
    if not training.epochs:
        return loaded
    steps = steps_for(training.epochs, count_samples(loaded.run), training.batch_size)
    return loaded.with_training(steps=steps, epochs=0.0)


def with_epochs(overrides: Sequence[str], epochs: float | None) -> list[str]:
    """The settings of the command line with its `--epochs`."""
    if epochs is None:
        return list(overrides)
    if not 0 < epochs < math.inf:
        raise UserError(f"--epochs is {epochs:g}; give a number above 0")
    return [*overrides, f"training.epochs={epochs!r}"]


def _steps(training: Training, samples: int, batch: int, *, follow: bool) -> int:
    if training.epochs:
        return steps_for(training.epochs, samples, batch)
    return min(training.steps, steps_for(EPOCHS, samples, batch)) if follow else training.steps


def _told(samples: int, batch: int, steps: int) -> str:
    epochs = steps / max(1, samples // batch)
    return f"{samples:,} training samples: batches of {batch}, {steps:,} steps ({epochs:.3g} epochs)"


def _named(layers: Sequence[Layer]) -> set[str]:
    """The keys of [training] that these layers name."""
    tables = (layer.values.get("training", {}) for layer in layers)
    return {name for table in tables if isinstance(table, Mapping) for name in table}
