"""Each loss as whole matrices of float64, on the unit sphere: what the modules must give."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F


def masses(weights: Tensor | None, n: int) -> Tensor:
    return torch.ones(n, dtype=torch.float64) if weights is None else n * weights / weights.sum()


def clip(u: Tensor, v: Tensor, scale: Tensor, weights: Tensor | None = None) -> Tensor:
    z, m = scale * u @ v.T, masses(weights, len(u))
    return -(m * (z.log_softmax(1).diagonal() + z.log_softmax(0).diagonal())).mean() / 2


def siglip(u: Tensor, v: Tensor, scale: Tensor, bias: Tensor | float) -> Tensor:
    sign = 2 * torch.eye(len(u), dtype=u.dtype) - 1
    return -F.logsigmoid(sign * (scale * u @ v.T + bias)).sum() / len(u)


def softclip(
    u: Tensor, v: Tensor, scale: Tensor, guides: tuple[Tensor, Tensor], beta: float = 0.3
) -> dict[str, Tensor]:
    soft, relation, eye = [], [], torch.eye(len(u), dtype=u.dtype)
    for x, z in zip(guides, (scale * u @ v.T, scale * v @ u.T), strict=True):
        p, q = (1 - beta) * eye + beta * (scale * x @ x.T).softmax(1), z.softmax(1)
        soft.append(divergence(p, q))
        others = ~eye.bool()
        rest = [y[others].view(len(u), -1) for y in (p, q)]
        relation.append(divergence(*(y / y.sum(1, keepdim=True) for y in rest)))
    return {"soft": sum(soft) / 2, "relation": sum(relation) / 2, "contrastive": 0.5 * clip(u, v, scale)}


def divergence(p: Tensor, q: Tensor) -> Tensor:
    """The mean over rows of both Kullback-Leibler divergences' mean."""
    return ((p * (p / q).log()).sum(1) + (q * (q / p).log()).sum(1)).mean() / 2


def cyclip(u: Tensor, v: Tensor, scale: Tensor) -> dict[str, Tensor]:
    in_modal, cross = ((a - b).square().sum() / len(u) for a, b in ((u @ u.T, v @ v.T), (u @ v.T, v @ u.T)))
    return {"contrastive": clip(u, v, scale), "in_modal": 0.25 * in_modal, "cross_modal": 0.25 * cross}


def mixed(a: Tensor, b: Tensor, lam: float) -> Tensor:
    angle = (a * b).sum(1, keepdim=True).acos()
    return (torch.sin(lam * angle) * a + torch.sin((1 - lam) * angle) * b) / angle.sin()


def m2(u: Tensor, v: Tensor, lam: float, scale: float) -> Tensor:
    own, m, eye = (u * v).sum(1), mixed(u, v, lam), torch.eye(len(u), dtype=torch.bool)
    halves = [scale * torch.where(eye, own[:, None], m @ x.T) for x in (v, u)]
    return -sum(z.log_softmax(1).diagonal().mean() for z in halves) / 2


def v_mix(u: Tensor, v: Tensor, lam: float, scale: Tensor) -> Tensor:
    eye = torch.eye(len(u), dtype=u.dtype)
    target = lam * eye + (1 - lam) * eye.flip(0)
    z = scale * torch.where((eye + eye.flip(0)).bool(), mixed(u, u.flip(0), lam) @ v.T, u @ v.T)
    return -((target * z.log_softmax(1)).sum() + (target * z.log_softmax(0)).sum()) / (2 * len(u))


def vl_mix(u: Tensor, v: Tensor, lam: float, scale: Tensor) -> Tensor:
    eye = torch.eye(len(u), dtype=torch.bool)
    own = (mixed(u, u.flip(0), lam) * mixed(v, v.flip(0), lam)).sum(1)
    z = scale * torch.where(eye, own[:, None], u @ v.T)
    return -(z.log_softmax(1).diagonal() + z.log_softmax(0).diagonal()).mean() / 2
