"""WiSE-FT: interpolation between the weights of a start and of an end.

Wortsman et al. 2022, "Robust fine-tuning of zero-shot models", Eq. 1 and Fig. 1.

    θ(α) = (1 - α) θ₀ + α θ₁          of every tensor of the model; α = 0 is the start, 1 the end, both to the bit,
                                      as is what did not change

θ₀, θ₁ the weights of the model before and after. The authors keep α = 0.5 where there is nothing to choose it on; here
it is chosen on validation data. Counters (of batch norm) are those of the end, and so are the heads and the bias that
an objective trains with: points do not depend on them. `EMA` is the same idea along one run.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from equipoise.models.warm_start import is_training_only
from equipoise.types import UserError


def interpolate_weights(start: Mapping[str, Tensor], end: Mapping[str, Tensor], share: float) -> dict[str, Tensor]:
    """State dict θ(α) at α = `share`."""
    if set(start) != set(end):
        unshared = sorted(set(start) ^ set(end))
        raise UserError(f"weights of two different models cannot be mixed: they differ in {', '.join(unshared[:3])}")
    return {
        name: torch.lerp(start[name], last, share) if last.is_floating_point() and not is_training_only(name) else last
        for name, last in end.items()
    }
