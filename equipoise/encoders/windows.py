"""Cosine attention within square windows of a picture, with a bias that is a function of the places' distance.

Liu et al. 2022, "Swin Transformer V2: Scaling Up Capacity and Resolution", Eq. 2-4.

    Sim(q_i, k_j) = cos(q_i, k_j)/τ + B(Δx, Δy)                              (2); τ ≥ 0.01, learned, one per head
    B(Δx, Δy) = 16 · sigmoid(G(Δx̂, Δŷ)),   Δx̂ = sign(Δx) · log₂(1 + |Δx|·8/(M - 1))/log₂ 8        (3, 4)

G is a small network (2, 512, ReLU, h), so that its weights say nothing of M. The paper has B = G and a plain logarithm;
the sigmoid, the 8s and that keys have no bias are the authors' code's. There a hidden pair's similarity is lowered by
100; here it is -∞, so that none of it is left.

N pictures of S × S places, cut into W windows of M × M = L places; h heads of d dimensions, w = h·d.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from equipoise.types import UserError

HIDDEN = 512  # of G
MOST_SCALE, FIRST_SCALE = 100.0, 10.0  # 1/τ
LARGEST_BIAS = 16.0
REACH = 8.0  # the logarithm is of distances from -8 to 8, whatever the window


def window_partition(x: Tensor, window: int) -> Tensor:
    """[N, S, S, w] to [N, W, L, w], row by row."""
    blocks = x.unflatten(2, (-1, window)).unflatten(1, (-1, window))
    return blocks.transpose(2, 3).flatten(3, 4).flatten(1, 2)


def window_reverse(x: Tensor, window: int) -> Tensor:
    """[N, W, L, w] to [N, S, S, w], as it was before `window_partition`."""
    per_row = math.isqrt(x.shape[1])
    return x.unflatten(2, (window, window)).unflatten(1, (per_row, per_row)).transpose(2, 3).flatten(3, 4).flatten(1, 2)


def neighbours(side: int, window: int, shift: int) -> Tensor:
    """Mask of the pairs of places in a window that attend to each other [W, L, L], for a picture rolled by `shift` to
    the upper left: places wrapped round from the other edge are no neighbours of the rest (Liu et al. 2021, Fig. 4)."""
    wrapped = torch.arange(side) >= side - shift
    corner = 2 * wrapped[:, None].long() + wrapped  # of four, [S, S]
    of_window = window_partition(corner[None, ..., None], window)[0, ..., 0]
    return of_window[:, :, None] == of_window[:, None, :]


class WindowAttention(nn.Module):
    def __init__(self, width: int, heads: int, window: int):
        super().__init__()
        if width % heads:
            raise UserError(f"width {width} cannot be split into {heads} heads; choose heads that divide it")
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.q_bias, self.v_bias = nn.Parameter(torch.zeros(width)), nn.Parameter(torch.zeros(width))
        self.log_scale = nn.Parameter(torch.full((heads,), math.log(FIRST_SCALE)))
        self.position_bias = PositionBias(window, heads)
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Attention in windows [N, W, L, w]; `mask` [W, L, L] names the pairs that attend, None: all."""
        bias = torch.cat([self.q_bias, torch.zeros_like(self.q_bias), self.v_bias])
        qkv = F.linear(x, self.qkv.weight, bias).unflatten(-1, (3, self.heads, -1))
        q, k, v = qkv.permute(3, 0, 1, 4, 2, 5).flatten(2, 3)  # windows beside heads: one bias for all pictures
        scale = self.log_scale.clamp(max=math.log(MOST_SCALE)).exp().repeat(x.shape[1])
        q, k = F.normalize(q, dim=-1) * scale[:, None, None], F.normalize(k, dim=-1)
        added = self.position_bias().expand(x.shape[1], -1, -1, -1)
        if mask is not None:
            added = added.masked_fill(~mask[:, None], -math.inf)
        added = added.flatten(0, 1)[None].to(q.dtype)
        attended = F.scaled_dot_product_attention(q, k, v, attn_mask=added, scale=1.0)
        return self.out(attended.unflatten(1, (-1, self.heads)).transpose(2, 3).flatten(-2))


class PositionBias(nn.Module):
    """B for all pairs of places of a window, [h, L, L]: a bias for each of (2M - 1)² distances, looked up."""

    distances: Tensor  # [(2M - 1)², 2], whole numbers, so that a model of any precision has its logarithms exactly
    pairs: Tensor  # [L, L] which distance lies between two places

    def __init__(self, window: int, heads: int):
        super().__init__()
        self.hidden = nn.Linear(2, HIDDEN)
        self.to_heads = nn.Linear(HIDDEN, heads, bias=False)
        self.farthest = max(1, window - 1)
        along = torch.arange(1 - window, window)
        places = torch.cartesian_prod(torch.arange(window), torch.arange(window))
        offsets = places[:, None] - places[None] + window - 1
        self.register_buffer("distances", torch.cartesian_prod(along, along), persistent=False)
        self.register_buffer("pairs", offsets[..., 0] * len(along) + offsets[..., 1], persistent=False)

    def forward(self) -> Tensor:
        x = self.distances.to(self.hidden.weight.dtype) * (REACH / self.farthest)
        x = x.sign() * torch.log2(1 + x.abs()) / math.log2(REACH)
        table = LARGEST_BIAS * self.to_heads(F.relu(self.hidden(x))).sigmoid()
        return table[self.pairs].permute(2, 0, 1)
