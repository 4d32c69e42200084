"""Geometry of the unit sphere in its last axis: pure functions, for the sphere and for products of it.

Absil, Mahony & Sepulchre 2008, "Optimization Algorithms on Matrix Manifolds", Ex. 5.4.1; per column for products
(Sun & Li 2024, App. J).

    θ(u, v)   = 2 atan2(‖u - v‖, ‖u + v‖)                   arccos⟨u, v⟩ without its loss of digits near 0 and π
    exp_p(z)  = cos‖z‖ p + sin‖z‖ z/‖z‖
    log_p(q)  = θ w/‖w‖,   w = q - ⟨p, q⟩p,   θ = atan2(‖w‖, ⟨p, q⟩)

u, v, p, q unit vectors [..., n]; z, w tangents [..., n]; θ [...]. Opposite points are joined by many shortest arcs:
`log` takes one of them, always the same. All gradients are finite; where a function has a kink (a distance of 0, an
angle of π) the gradient is 0, the middle of those around it.
"""

from __future__ import annotations

import torch
from torch import Generator, Tensor
from torch.nn import functional as F

SMALL_SINE = 1e-3  # below it arcsin(s)/s is a short series: exact to the last digit, and smooth at 0


def norm(vectors: Tensor) -> Tensor:
    """‖·‖ of the last axis, with gradient 0 at 0."""
    return root(vectors.square().sum(-1))


def root(squares: Tensor) -> Tensor:
    """√ of numbers >= 0, with gradient 0 at 0."""
    positive = squares > 0
    return torch.where(positive, squares, 1).sqrt() * positive


def angle(u: Tensor, v: Tensor) -> Tensor:
    chord, across = norm(u - v), norm(u + v)
    defined = (chord > 0) | (across > 0)  # two zero vectors have no angle: 0, with gradient 0
    return 2 * torch.atan2(chord, torch.where(defined, across, 1))


def tangent(point: Tensor, vector: Tensor) -> Tensor:
    return vector - _inner(point, vector) * point


def exp(point: Tensor, tangent: Tensor) -> Tensor:
    length = norm(tangent)[..., None]
    return length.cos() * point + torch.sinc(length / torch.pi) * tangent


def log(point: Tensor, other: Tensor) -> Tensor:
    across = tangent(point, tangent(point, other))  # twice: rounding leaves a part along `point` the first time
    cosine, sine = _inner(point, other), norm(across)[..., None]
    is_near = (cosine >= 0) & (sine < SMALL_SINE)
    is_opposite = (cosine < 0) & (sine < 16 * torch.finfo(point.dtype).eps)
    usual = ~(is_near | is_opposite)
    safe = torch.where(usual, sine, 1)  # a branch that is not taken must not spoil the gradient either
    stretch = torch.atan2(safe, torch.where(usual, cosine, 0)) / safe
    squared = torch.where(is_near, sine, 0).square()
    series = 1 + squared / 6 + 3 * squared.square() / 40
    to_other = torch.where(is_near, series, stretch) * across
    return torch.where(is_opposite, torch.pi * _any_direction(point), to_other)


def sample(shape: tuple[int, ...], generator: Generator | None) -> Tensor:
    device = None if generator is None else generator.device
    return F.normalize(torch.randn(shape, generator=generator, dtype=torch.float64, device=device), dim=-1)


def _inner(u: Tensor, v: Tensor) -> Tensor:
    return (u * v).sum(-1, keepdim=True)


@torch.no_grad()
def _any_direction(point: Tensor) -> Tensor:
    """A unit tangent: along the axis that the point is farthest from."""
    axis = F.one_hot(point.abs().argmin(-1), point.shape[-1]).to(point)
    return F.normalize(tangent(point, axis), dim=-1)
