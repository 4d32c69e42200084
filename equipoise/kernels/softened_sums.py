"""A softened contrast from a few numbers of every sample: its loss, and what its gradient is made of.

Gao et al. 2024 (SoftCLIP), Eq. 8-16, with the sums over pairs taken out. Of one side (an image among texts: logits z,
scores s of its guide, its match z₀ and s₀; or a text among images), the negatives alone give

    â = log Σ e^z,  b̂ = log Σ e^s,  Q = Σ q̂ (z - s),  P = Σ p̂ (z - s)        q̂ = e^(z - â),  p̂ = e^(s - b̂)

and with the match a = log(e^â + e^z₀), b = log(e^b̂ + e^s₀), ℓ = log((1 - β) + β e^(s₀ - b)) the target's share of it:

    negatives   KL(p‖q) = â - b̂ - P                 KL(q‖p) = Q - â + b̂
    all         KL(p‖q) = β e^(b̂ - b) (log β - b + a - P) + e^ℓ (ℓ - z₀ + a)
                KL(q‖p) = e^(â - a) (Q - a - log β + b) + e^(z₀ - a) (z₀ - a - ℓ)
    CLIP        a - z₀

Any loss of these, by autograd, gives f = d loss / d (â, Q, b̂, P), and every pair's part follows (`softened_tiles.py`):

    ∂z = q̂ (f_â + f_Q (1 + z - s - Q)) + p̂ f_P         ∂s = p̂ (f_b̂ + f_P (z - s - P - 1)) - q̂ f_Q

Errors. Means are convex: a part of a mean, and the merging of two, errs by a few units in the last place of the
largest |z - s| that has weight, and z and s are themselves known no better than that. The match is never subtracted
from a sum, so a sum that is all match loses no digit of the rest. What is done here is done in float64.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from equipoise.forms import CrossEntropy, Divergence, Form, Unsoftened
from equipoise.forms.cross_entropy import SHARES

LOG_2 = math.log(2)


class Sides(NamedTuple):
    """[2, N] each, images' then texts': four numbers of the negatives and two of the match."""

    log_q: Tensor  # â
    mean_q: Tensor  # Q
    log_p: Tensor  # b̂
    mean_p: Tensor  # P
    match: Tensor  # z₀
    own: Tensor  # s₀


class Softening(NamedTuple):
    """How strongly guides soften, and whom they know [2, N]; None where they know everybody."""

    beta: float
    known: Tensor | None


def sides_of(sums: Tensor, hits: Tensor) -> Sides:
    """From sums [2, 4, N], whose logarithms are of base 2, and the pairs' z₀, s₀, c₀ [3, N]."""
    numbers = sums.double().unbind(1)
    match, *own = hits.double()
    return Sides(LOG_2 * numbers[0], numbers[1], LOG_2 * numbers[2], numbers[3], match.expand(2, -1), torch.stack(own))


def loss_of(form: Form, sides: Sides, softening: Softening) -> Tensor:
    if isinstance(form, Unsoftened):
        assert isinstance(form.form, CrossEntropy)
        cost = _surprise(sides).mean(1)
        return (cost * cost.new_tensor(SHARES[form.form.direction])).sum()
    assert isinstance(form, Divergence)
    if form.among == "negatives" and sides.match.shape[1] == 1:
        return sides.match.sum() * 0  # nobody is a negative
    there, back = _among_negatives(sides) if form.among == "negatives" else _among_all(sides, softening.beta)
    cost = there if form.kind == "kl" else (there + back) / 2
    if softening.known is not None:
        cost = torch.where(softening.known, cost, 0 if form.among == "negatives" else _surprise(sides))
    return cost.mean()


def coefficients(sums: Tensor, wanted: Sides, sides: Sides) -> Tensor:
    """The six numbers of every side [2, 6, N], float32: log2-sums as they are, and what multiplies q̂ and p̂."""
    of_q = wanted.log_q + wanted.mean_q * (1 - sides.mean_q)
    of_p = wanted.log_p - wanted.mean_p * (1 + sides.mean_p)
    factors = torch.stack((of_q, wanted.mean_q, wanted.mean_p, of_p), 1)
    return torch.cat((sums[:, 0:1], sums[:, 2:3], factors.float()), 1)


def _surprise(sides: Sides) -> Tensor:
    return torch.logaddexp(sides.log_q, sides.match) - sides.match


def _among_negatives(sides: Sides) -> tuple[Tensor, Tensor]:
    """KL(p‖q) and KL(q‖p)."""
    further = sides.log_q - sides.log_p
    return further - sides.mean_p, sides.mean_q - further


def _among_all(sides: Sides, beta: float) -> tuple[Tensor, Tensor]:
    log_q, log_p = torch.logaddexp(sides.log_q, sides.match), torch.logaddexp(sides.log_p, sides.own)
    further, hit = log_q - log_p, sides.match - log_q
    share = math.log(beta) + sides.own - log_p
    if beta < 1:
        share = torch.logaddexp(share, share.new_tensor(math.log1p(-beta)))
    there = beta * (sides.log_p - log_p).exp() * (math.log(beta) + further - sides.mean_p)
    back = (sides.log_q - log_q).exp() * (sides.mean_q - further - math.log(beta))
    return there + share.exp() * (share - hit), back + hit.exp() * (hit - share)
