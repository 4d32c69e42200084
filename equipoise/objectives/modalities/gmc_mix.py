"""m²-Mix beside GMC: mixes of two modalities against the joint code.

Oh et al. 2023, "Geodesic Multi-Modal Mixup for Robust Fine-Tuning", App. A.3.

    m_i = m_λ(z_a,i, z_b,i),   a, b two modalities drawn anew each epoch,   λ ~ Beta(2, 2) anew each step

    reading      loss
    per_anchor   NT-Xent between m and z, both directions                                            (`nt_xent.py`)
    literal      -log [ Σ_i exp(τ s(m_i, z_i)) / Σ_{i≠j} exp(τ s(m_i, z_j)) ]                  (`forms/pooled_ratio.py`)

z [N, d] joint codes, z_a, z_b [N, d] those of the modalities, τ = exp(t). The paper gives words and no equation, and
there is no code. `literal` follows the words; it is unbounded below (the positives are not in the denominator), so
training may lower it for ever without aligning anything, and whoever chooses it is told so. `per_anchor` has the form
of the loss it stands beside and is at least 0. Mixes are positives and negatives here, unlike in `mixup/m2mix.py`,
where they are negatives alone.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence

from torch import Tensor

from equipoise.data.rng import python_random
from equipoise.forms.pooled_ratio import PooledRatio
from equipoise.kernels import Scoring
from equipoise.objectives.modalities.nt_xent import nt_xent
from equipoise.spaces import geodesic_mix
from equipoise.targets import OneHot
from equipoise.types import Notice, StepInfo, UserError

READINGS = ("per_anchor", "literal")


def check_reading(reading: str, chosen: bool = True) -> None:
    """Raise UserError for an unknown reading; warn of the one that has no least value, where it is to be used."""
    if reading not in READINGS:
        raise UserError(f"reading must be one of {', '.join(READINGS)}, not {reading!r}")
    if reading == "literal" and chosen:
        warnings.warn(
            'reading = "literal" of m²-Mix is unbounded below (positives are not in its denominator), so that a lower '
            f'loss need not mean better codes; "{READINGS[0]}" is bounded',
            Notice,
            stacklevel=3,
        )


def drawn_modalities(moment: StepInfo, names: Sequence[str]) -> tuple[str, str]:
    """The two modalities that are mixed in this epoch: the same in every process and after every interruption."""
    if len(names) < 2:
        raise UserError(f"m²-Mix mixes two modalities, but there are {list(names)}; give more, or set its weight to 0")
    first, second = python_random(moment.seed, "mix", "modalities", moment.epoch).sample(list(names), 2)
    return first, second


def gmc_mix(
    joint: Tensor,
    first: Tensor,
    second: Tensor,
    lam: float,
    scoring: Scoring,
    *,
    reading: str = READINGS[0],
    impl: str = "auto",
) -> Tensor:
    """The loss of mixes, λ = `lam` of them of `first`, against joint codes; all [N, d]."""
    mixed = geodesic_mix(first, second, lam, space=scoring.space)
    if reading == "per_anchor":
        return nt_xent(joint, mixed, scoring, impl=impl)
    if len(joint) < 2:
        raise UserError('reading = "literal" of m²-Mix needs negatives: at least two samples per batch')
    return scoring.without_bias().contrast(mixed, joint, target=OneHot(), form=PooledRatio(), impl=impl)
