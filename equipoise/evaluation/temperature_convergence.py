"""When a temperature settles: the rule behind the column "Converge Step".

Sun and Li 2024, "Analyzing the Impact of Learnable Softmax Temperature ...", App. C, Table 7: the step at which the
temperature "starts to converge (changes less than 2% for an epoch)".

    converged_at = min { s : |τ(s') / τ(s) - 1| < tolerance for every logged s' in (s, s + epoch] }

τ = exp(t) is the scale, not its logarithm. Only steps after which a whole epoch was logged can qualify, so a run
shorter than an epoch, or one that still moves at its end, gives None. The rule looks one epoch ahead and no further: a
temperature that rests for an epoch and moves on later has "converged" at its first rest.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def converged_at(
    steps: Sequence[float], scales: Sequence[float], epoch_steps: float, tolerance: float = 0.02
) -> int | None:
    """The first of `steps` (rising) after which `scales` stay within `tolerance` for an epoch; None where none is."""
    assert len(steps) == len(scales), "one scale a step"
    at, scale = np.asarray(steps, dtype=float), np.asarray(scales, dtype=float)
    for number, step in enumerate(at):
        if at[-1] < step + epoch_steps:
            return None
        until = np.searchsorted(at, step + epoch_steps, side="right")
        change = np.abs(scale[number + 1 : until] / scale[number] - 1)
        if change.size and change.max() < tolerance:
            return int(step)
    return None
