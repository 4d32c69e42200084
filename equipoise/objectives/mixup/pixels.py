"""Pictures mixed with those of the same batch read backwards, before any encoder sees them.

Lee et al. 2021, "i-Mix", §3; Shen et al. 2022, "Un-Mix", §3; as Oh et al. 2023, App. A.1, fine-tune CLIP with them.

    x̃_i = λ x_i + (1-λ) x_{N-1-i}                       λ ~ Beta(α, α), one per step (`schedule.py`)
    L_mix = symmetric cross-entropy of exp(t)·s(ũ_i, v_j) with the target λ·[i = j] + (1-λ)·[i + j = N-1]

x [N, 3, H, W] normalised pixels (mixing and normalising commute), ũ [N, d] points of mixed pictures, v of texts.
Un-Mix writes λ·CE(x̃ in its order) + (1-λ)·CE(x̃ read backwards): cross-entropy is linear in its target, so that is the
same. The data bring the partner x_{N-1-i} as a view (`data/sample_views.py`), cut and coloured as it is at its own
place, so that pixels never travel between processes, and neither their number nor micro-batches change anything. V-Mix
with `original_negatives = False` (`unimodal.py`) is the same of points in the place of pixels.
"""

from __future__ import annotations

import math

from torch import Tensor

from equipoise.data.source import IMAGE_PARTNER
from equipoise.forms import CrossEntropy
from equipoise.kernels import Scoring
from equipoise.objectives.mixup.schedule import drawn_share
from equipoise.targets import Mirrored
from equipoise.targets.weighted import weighted_matches
from equipoise.types import Batch, StepInfo, UserError

TERM = "pixels"  # whose λ is drawn


def check_alpha(alpha: tuple[float, float]) -> None:
    if not all(0 < value < math.inf for value in alpha):
        raise UserError(f"alpha must be two numbers above 0, not {list(alpha)}")


def share_of(batch: Batch | None, alpha: tuple[float, float]) -> float:
    """λ of this batch."""
    return drawn_share(StepInfo() if batch is None else batch.moment, TERM, alpha)


def mixed_pictures(batch: Batch, alpha: tuple[float, float]) -> Tensor:
    """x̃ of the samples of this batch, which may be a process's shard."""
    if IMAGE_PARTNER not in batch.side:
        raise UserError(
            f"pictures are mixed with {IMAGE_PARTNER}, which the batch does not hold; make it with "
            "Batches(..., views=objective.views)"
        )
    lam = share_of(batch, alpha)
    return lam * batch.images + (1 - lam) * batch.side[IMAGE_PARTNER]


def mixed_loss(
    mixed: Tensor, text: Tensor, lam: float, scoring: Scoring, *, weights: Tensor | None = None, impl: str = "auto"
) -> Tensor:
    """L_mix of points [N, d] of the whole batch; a match counts by its text's pair where there are `weights` [N]."""
    target = weighted_matches(Mirrored(lam, 1 - lam), weights)
    return scoring.contrast(mixed, text, target=target, form=CrossEntropy(), impl=impl)
