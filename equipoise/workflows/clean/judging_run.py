"""The run that trains the judges of a run's pairs."""

from __future__ import annotations

from dataclasses import replace

from equipoise.config import Loaded, load_layers
from equipoise.data.keep.settings import Clean
from equipoise.settings.recipe import recipe_layers
from equipoise.types import UserError


def judging_run(loaded: Loaded) -> Loaded:
    """The run as the judges are trained: shorter, or by a recipe of their own, and the same whatever is decided by
    them."""
    settings = replace(loaded.run.clean, enabled=False)
    by = by_own_recipe(loaded) if settings.recipe else loaded
    steps = by.run.training.steps
    by = by.with_training(steps=settings.steps or steps if settings.recipe else settings.judge_steps(steps))
    return Loaded(replace(by.run, clean=settings), {**by.table, "clean": vars(Clean(seen=settings.seen))})


def by_own_recipe(loaded: Loaded) -> Loaded:
    """The recipe `clean.recipe` on the pairs of a run, with its seed and where it is trained.

    Stored settings may name it, so what it says is trusted no more than they are.
    """
    settings, training = loaded.run.clean, loaded.run.training
    own = load_layers(*(replace(layer, trusted=False) for layer in recipe_layers(settings.recipe)))
    if own.run.training.epochs and not settings.steps:
        raise UserError(
            f"clean.recipe {settings.recipe} says training.epochs; say in clean.steps how long judges train"
        )
    own = own.with_training(epochs=0.0, device=training.device, workers=training.workers)
    shared = ("data", "shuffle", "keep", "seed")
    run = replace(own.run, clean=settings, **{name: getattr(loaded.run, name) for name in shared})
    return Loaded(run, {**own.table, **{name: loaded.table[name] for name in shared}})
