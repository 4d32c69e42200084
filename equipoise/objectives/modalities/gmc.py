"""GMC: the code of each modality against the joint code of all of them.

Poklukar et al. 2022, "Geometric Multimodal Contrastive Representation Learning", Eq. 1-3, and their code; m²-Mix beside
it of Oh et al. 2023, App. A.3.

    L_GMC = Σ_m NT-Xent(z, z_m)                    (`nt_xent.py`: over 2N points, oneself removed)
    L = L_GMC + β L_m²                             (`gmc_mix.py`; β = 0.2)

z [N, d] joint codes, z_m [N, d] those of modality m, all from one shared head onto the space; GMC's temperature is 0.3,
a constant. Its code takes the mean over the 2N points of the sum over modalities, which is this. A sample that lacks a
modality is left out of its term, and counts in the others. The supervised loss of their experiments stands beside it
(`supervised.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from equipoise.kernels import Scoring
from equipoise.objectives.mixup.schedule import drawn_share
from equipoise.objectives.modalities.gmc_mix import READINGS, check_reading, drawn_modalities, gmc_mix
from equipoise.objectives.modalities.nt_xent import nt_xent
from equipoise.objectives.modalities.presence import Presence, check_codes, nothing_of, rows_with
from equipoise.settings.bounds import bounded
from equipoise.types import Loss, StepInfo


def gmc(
    joint: Tensor, codes: Mapping[str, Tensor], scoring: Scoring, *, present: Presence | None = None, impl: str = "auto"
) -> Loss:
    """L_GMC, with a term per modality. `present` says which samples have which modality; left out: all have all."""
    check_codes(codes, joint)
    terms = {}
    for name, code in codes.items():
        z, own = rows_with(present, (name,), joint, code)
        terms[f"gmc/{name}"] = nt_xent(z, own, scoring, impl=impl) if len(z) else nothing_of(z, own)
    return Loss(torch.stack(list(terms.values())).sum(), terms)


@dataclass(frozen=True)
class GMCLoss:
    """GMC with m²-Mix beside it, whose modalities and shares are drawn by the step."""

    cites: ClassVar[tuple[str, ...]] = ("poklukar2022gmc", "oh2023geodesic")

    m2_weight: float = bounded(0.0, 0.0, 1e6)  # β; the mixup paper's is 0.2
    m2_alpha: float = bounded(2.0, 1e-6, 1e6)  # of Beta(α, α)
    reading: str = READINGS[0]
    impl: str = "auto"

    def __post_init__(self) -> None:
        check_reading(self.reading, chosen=self.m2_weight > 0)

    def __call__(
        self,
        joint: Tensor,
        codes: Mapping[str, Tensor],
        scoring: Scoring,
        moment: StepInfo,
        present: Presence | None = None,
    ) -> Loss:
        plain = gmc(joint, codes, scoring, present=present, impl=self.impl)
        if not self.m2_weight:
            return plain
        names, lam = drawn_modalities(moment, list(codes)), drawn_share(moment, "m2", (self.m2_alpha, self.m2_alpha))
        mixed = self._mixed(rows_with(present, names, joint, *(codes[name] for name in names)), lam, scoring)
        facts = {"mix/share_m2": lam, **{f"mix/of_{name}": 1.0 for name in names}}
        return Loss(plain.total + self.m2_weight * mixed, {**plain.terms, "m2": mixed}, lambda: facts)

    def _mixed(self, rows: tuple[Tensor, ...], lam: float, scoring: Scoring) -> Tensor:
        joint, first, second = rows
        if len(joint) < (2 if self.reading == "literal" else 1):  # too few samples have both modalities
            return nothing_of(*rows)
        return gmc_mix(joint, first, second, lam, scoring, reading=self.reading, impl=self.impl)
