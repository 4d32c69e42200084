"""i-Mix: nothing but mixed pictures, each belonging to the texts of both that it was mixed of.

Lee et al. 2021, "i-Mix: A Domain-Agnostic Strategy for Contrastive Representation Learning", §3, as a baseline of Oh et
al. 2023, "Geodesic Multi-Modal Mixup for Robust Fine-Tuning", App. A.1.

    L = L_mix                                                        (`pixels.py`)

The authors draw partners by a random permutation, λ for each sample, and keep the larger of λ and 1-λ; Oh et al. take
the batch read backwards, "for computational efficiency", and so does this, with one λ per step. α = 1 is of the
authors' code: λ is uniform. The role `image` is of mixed pictures here, so one pass of the image tower is enough; what
a run logs of a batch (`batch/positive`, ...) is of mixed pictures too. `unmix.py` adds the loss of unmixed pictures.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from equipoise.data.source import IMAGE_PARTNER
from equipoise.kernels import Scoring
from equipoise.objectives.mixup.pixels import check_alpha, mixed_loss, mixed_pictures, share_of
from equipoise.objectives.objective import Objective
from equipoise.targets.weighted import pair_weights_of
from equipoise.types import Batch, Embeddings, Loss


@dataclass(frozen=True)
class IMix(Objective):
    cites: ClassVar[tuple[str, ...]] = ("lee2021imix", "oh2023geodesic")

    alpha: tuple[float, float] = (1.0, 1.0)  # of Beta(α, α), in the first step and in the last
    impl: str = "auto"  # how the loss is computed: auto, eager, tiled, fused

    def __post_init__(self) -> None:
        check_alpha(self.alpha)

    @property
    def weighs_pairs(self) -> bool:
        return type(self) is IMix

    @property
    def needs(self) -> tuple[str, ...]:
        return ("image", "text")

    @property
    def views(self) -> tuple[str, ...]:
        return (IMAGE_PARTNER,)

    def prepared(self, batch: Batch) -> Batch:
        return replace(batch, images=mixed_pictures(batch, self.alpha))

    def loss(self, embeddings: Embeddings, batch: Batch | None, scoring: Scoring) -> Loss:
        lam, weights = share_of(batch, self.alpha), pair_weights_of(batch)
        mixed = mixed_loss(
            embeddings.image, embeddings.text, lam, scoring.without_bias(), weights=weights, impl=self.impl
        )
        return Loss(mixed, {"mixed": mixed}, lambda: {"mix/share_pixels": lam})
