"""The geodesic mix of two points: the point at the share λ of the geodesic from b to a.

Oh et al. 2023, "Geodesic Multi-Modal Mixup for Robust Fine-Tuning", App. B, Algorithm 1.

    m_λ(a, b) = [ sin(λθ) a + sin((1-λ)θ) b ] / sin θ,   θ = ∠(a, b)        on the sphere
    m_λ(a, b) = exp_b(λ log_b(a))                                            on any space that has geodesics

a, b [..., d] points; λ a number, or one per pair [...]. The second form is the first one on a sphere, and stays finite
where sin θ is 0: equal points (captions repeat) give themselves, opposite ones a point of one of the arcs between.
Nothing but a and b is kept for the gradient: a geodesic takes a dozen tensors of their size.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from equipoise.spaces.space import Space
from equipoise.types import UserError


def geodesic_mix(a: Tensor, b: Tensor, lam: Tensor | float, *, space: Space) -> Tensor:
    """The mix m_λ(a, b): λ = 1 gives a, λ = 0 gives b."""
    if not space.has_geodesics:
        raise UserError(f"the space {type(space).__name__} has no geodesics to mix along; choose one that has")
    shares = torch.as_tensor(lam)
    if not bool(((shares >= 0) & (shares <= 1)).all()):
        raise UserError(f"lam must lie between 0 and 1, not {lam}")
    mixed = checkpoint(space.interpolate, a, b, lam, use_reentrant=False)
    assert isinstance(mixed, Tensor)
    return mixed
