"""What is proved of the mixups, checked with numbers: Theorem D.1 and Proposition D.2 of Oh et al. 2023, App. D."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

import equipoise as eq
from equipoise.evaluation.geometry import alignment
from equipoise.kernels import Scoring
from equipoise.objectives.mixup.m2mix import m2mix
from equipoise.spaces import TowardMix

ANGLES = torch.linspace(0, 2 * math.pi, 40_001, dtype=torch.float64)[:-1]  # of the circle, d = 2
WIDTH = 2 * math.pi / len(ANGLES)


def log_i0(kappa: Tensor) -> Tensor:
    return torch.special.i0e(kappa).log() + kappa


def a(kappa: Tensor) -> Tensor:
    """A(κ) = I₁(κ)/I₀(κ), the mean length of a von Mises distribution."""
    return torch.special.i1e(kappa) / torch.special.i0e(kappa)


def a_inverse(length: Tensor) -> Tensor:
    low, high = torch.zeros_like(length), torch.full_like(length, 1e7)
    for _ in range(200):
        middle = (low + high) / 2
        low, high = torch.where(a(middle) < length, middle, low), torch.where(a(middle) < length, high, middle)
    return low


def log_density(mean: float, kappa: Tensor) -> Tensor:
    return kappa * torch.cos(ANGLES - mean) - math.log(2 * math.pi) - log_i0(kappa)


def divergence(first: Tensor, second: Tensor) -> float:
    """KL of densities given as logarithms, by summing over the circle."""
    return float((first.exp() * (first - second)).sum() * WIDTH)


@pytest.mark.parametrize("kappa", [50.0, 400.0])
@pytest.mark.parametrize("between", [0.5, 1.5, 3.0])
def test_theorem_d1_holds_for_concentrated_clouds(kappa, between):
    """x₁ ~ vM(0, κ), x₂ ~ vM(Δ, κ); their mix points to Δ/2 with κ̃ = A⁻¹(A(κ)²): it is harder than x₂."""
    k = torch.tensor(kappa, dtype=torch.float64)
    mixed = a_inverse(a(k) ** 2)
    assert float(mixed) == pytest.approx(kappa / 2, rel=0.02)  # what A(κ) ≈ 1 - 1/2κ says
    one, other, mix = log_density(0.0, k), log_density(between, k), log_density(between / 2, mixed)
    harder, plain = divergence(one, mix), divergence(one, other)
    assert plain == pytest.approx(float(k * a(k)) * (1 - math.cos(between)), rel=1e-6)  # the paper's expression
    assert harder < plain


def test_theorem_d1_needs_its_large_kappa_and_two_means():
    """Where both clouds are the same, or nearly so beside their width, a mix is farther: it is wider than they are."""
    k = torch.tensor(400.0, dtype=torch.float64)
    one, mixed = log_density(0.0, k), a_inverse(a(k) ** 2)
    assert divergence(one, log_density(0.0, mixed)) > divergence(one, one) == 0
    near = 0.02  # radians; the clouds are 0.05 wide
    assert divergence(one, log_density(near / 2, mixed)) > divergence(one, log_density(near, k))


def test_the_expression_printed_for_the_mix_is_no_divergence():
    """log I₀(κ̃) - log I₀(κ) + κ̃A(κ̃)(1 - cos Δ), in the proof, is below 0: the term A(κ)(κ - κ̃) is missing there."""
    k = torch.tensor(100.0, dtype=torch.float64)
    mixed, between = a_inverse(a(k) ** 2), 0.5
    printed = log_i0(mixed) - log_i0(k) + mixed * a(mixed) * (1 - math.cos(between))
    assert float(printed) < -30
    right = log_i0(mixed) - log_i0(k) + a(k) * (k - mixed * math.cos(between / 2))
    by_sum = divergence(log_density(0.0, k), log_density(between / 2, mixed))
    assert float(right) == pytest.approx(by_sum, rel=1e-6)


SPACE = eq.Sphere(16)
TEMPERATURES = (1e-2, 1e-3, 1e-4)


def clouds(n: int, apart: bool) -> tuple[Tensor, Tensor]:
    """Pairs; where `apart`, every image is closer to some other text than to its own."""
    make = torch.Generator().manual_seed(0)
    u = SPACE.project(torch.randn(n, 16, generator=make).double())
    noise = torch.randn(n, 16, generator=make).double()
    v = SPACE.project(u.roll(1, 0) + 0.1 * noise if apart else u + 0.1 * noise)
    return u, v


def one_way(u: Tensor, v: Tensor, tau: float) -> float:
    return float(
        Scoring(SPACE, -math.log(tau)).contrast(u, v, target=eq.OneHot(), form=eq.CrossEntropy("rows"))  # τ → 0
    )


def test_proposition_d2_clip_becomes_a_triplet_loss():
    """τ·C(I, T) → mean_i max(max_j s_ij - s_ii, 0), at a distance of at most τ log M (Eq. 7)."""
    for apart in (True, False):
        u, v = clouds(32, apart)
        others = (u @ v.T).masked_fill(torch.eye(32, dtype=torch.bool), -torch.inf).amax(1)
        triplet = float((others - (u * v).sum(1)).clamp(min=0).mean())
        for tau in TEMPERATURES:
            assert abs(tau * one_way(u, v, tau) - triplet) <= tau * math.log(32) + 1e-12
        if apart:  # where all have a harder negative it is minus the alignment, but for a factor ½ (squares are 2 - 2s)
            assert triplet == pytest.approx(-alignment(u, v) / 2, rel=1e-9)
        else:  # where none has, CLIP's loss vanishes, while there is room for alignment
            assert triplet == 0
            assert alignment(u, v) > 0.5


def test_proposition_d2_m2_spreads_but_keeps_the_positive():
    """Eq. 8: where all mixed negatives are above the positive, as τ → 0

        C_m² = mean_i log Σ_{j≠i} exp(s(I_i, m_ij)/τ) - s_ii/τ + o(1)

    The proof drops s_ii/τ on the way. What is left is a log-sum-exp over similarities, as uniformity is one of
    -2‖x - y‖² = 4s - 4: at τ = ¼ they have the same exponents.
    """
    u, v = clouds(32, apart=True)
    lam, diagonal = 0.8, torch.eye(32, dtype=torch.bool)
    own = (u * v).sum(1)
    halves = [TowardMix(SPACE, lam).similarity(rows, cols) for rows, cols in ((u, v), (v, u))]
    for half in halves:
        assert bool((half.masked_fill(diagonal, torch.inf).amin(1) > own).all()), "the proof's assumption"
    negatives = [half.masked_fill(diagonal, -torch.inf) for half in halves]
    for tau in TEMPERATURES:
        whole = float(m2mix(u, v, lam, Scoring(SPACE, -math.log(tau)), reading="proof"))
        spread = sum(float(torch.logsumexp(half / tau, 1).mean()) for half in negatives) / 2
        kept = float(own.mean()) / tau
        assert whole == pytest.approx(spread - kept, abs=1e-3)
        assert float(own.abs().mean()) / tau > 1  # so that dropping it is no small thing for a row
        hardest = sum(float((half.amax(1) - own).mean()) for half in negatives) / 2
        assert tau * whole == pytest.approx(hardest, abs=tau * math.log(32))
