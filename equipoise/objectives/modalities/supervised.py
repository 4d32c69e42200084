"""The supervised loss beside a contrast of modalities: a number by L1, or a class by cross-entropy.

Poklukar et al. 2022 (GMC), their code for CMU-MOSEI: L1 of the sentiment from -3 to 3; Oh et al. 2023, App. A.3, write
cross-entropy.

    L = 1/N Σ_i |y_i - ŷ_i|                       l1                ŷ [N] or [N, 1], y [N]
    L = 1/N Σ_i -log softmax(ŷ_i)[y_i]            cross_entropy     ŷ [N, C] logits, y [N] whole numbers from 0
"""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F

from equipoise.types import UserError

KINDS = ("l1", "cross_entropy")


def supervised(predicted: Tensor, labels: Tensor, kind: str) -> Tensor:
    """The loss of predictions for N samples with labels [N]."""
    if kind not in KINDS:
        raise UserError(f"the supervised loss must be one of {', '.join(KINDS)}, not {kind!r}")
    exact = predicted.float() if predicted.dtype.itemsize < 4 else predicted  # a label of 1.8 is none in bfloat16
    if kind == "l1":
        if predicted.numel() != labels.numel() or len(predicted) != len(labels):
            raise UserError(f"l1 takes one number per sample, not {list(predicted.shape)} for {list(labels.shape)}")
        return F.l1_loss(exact.flatten(), labels.flatten().to(exact.dtype))
    if predicted.ndim != 2 or labels.shape != predicted.shape[:1] or labels.is_floating_point():
        raise UserError(
            f"cross_entropy takes logits [N, C] and whole numbers [N], not {list(predicted.shape)} and "
            f"{labels.dtype} {list(labels.shape)}"
        )
    if not labels.is_cuda and len(labels) and not 0 <= int(labels.min()) <= int(labels.max()) < predicted.shape[1]:
        raise UserError(
            f"labels are from {int(labels.min())} to {int(labels.max())}, but the head has classes 0 to "
            f"{predicted.shape[1] - 1}; number the classes from 0, or build a head for more"
        )
    return F.cross_entropy(exact, labels.long())
