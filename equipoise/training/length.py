"""How long a run trains: by `steps`, or by `epochs`, from which steps follow when the data is known.

The newest layer of settings that names one of them decides: a recipe may say epochs where the recipe it extends said
steps, and the command line may say steps over both. Stored runs say steps alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from equipoise.settings.layers import Layer, LayeredTable


def steps_for(epochs: float, samples: int, batch_size: int) -> int:
    """Steps of so many epochs; batches are full, and at least one is an epoch."""
    return math.ceil(epochs * max(1, samples // batch_size))


def layers_by_epochs(layers: tuple[Layer, ...]) -> tuple[Layer, ...]:
    """The layer whose `training.epochs` decides, and those above it; none where steps decide. Raises UserError where
    one layer names both."""
    for number, layer in reversed(list(enumerate(layers))):
        named = layer.values.get("training")
        if not isinstance(named, Mapping):
            continue
        if named.get("epochs") and "steps" in named:
            message = "training.steps and training.epochs say the same; give one of them"
            raise LayeredTable((layer,)).error(message, "training", "epochs")
        if named.get("epochs"):
            return layers[number:]
        if "steps" in named or "epochs" in named:
            return ()
    return ()


def is_due(step: int, every: int, steps: int) -> bool:
    """Whether something that happens `every` so many steps, and at the last, happens after `step`."""
    return step > 0 and (step == steps or (every > 0 and step % every == 0))
