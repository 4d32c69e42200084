"""Cross-modal transformer: one modality, step by step, looks at the steps of another.

Tsai et al. 2019, "Multimodal Transformer for Unaligned Multimodal Language Sequences", §3.1-3.2, and their code.

    x ← √w x + PE,   z ← √w z + PE                                       dropout on both
    x ← x + attention(LN₀(x), LN₀(z), LN₀(z));   x ← x + W₂ relu(W₁ LN₁(x))        per layer; dropout on what is added
    y = LN(x)

x [N, L, w] the modality that looks (queries), z [N, P, w] what it looks at (keys and values): the same low-level steps
in every layer, under the norm of that layer's queries. Without z it is a self-attention transformer. `future` keeps
step i from steps after i + |P - L|, where P and L count up to the last real step. Their code draws the dropout of keys
and of values apart, and so does this. A step that is not real is no key, and attention that finds no key adds nothing.
Their code has no masks; it gives steps whose first number is 0 no position, which the mask decides here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from equipoise.encoders.sequences.positions import sinusoidal_positions
from equipoise.encoders.sequences.sequence import real_length
from equipoise.types import UserError


@dataclass(frozen=True)
class Dropouts:
    attention: float = 0.0  # of attention's weights
    hidden: float = 0.0  # behind the ReLU
    residual: float = 0.0  # of what is added to the steps
    embedding: float = 0.0  # of steps with their positions


class MaskedAttention(nn.Module):
    """Multi-head attention whose queries may have no key."""

    def __init__(self, width: int, heads: int, dropout: float):
        super().__init__()
        if width % heads:
            raise UserError(f"width {width} cannot be split into {heads} heads; choose heads that divide it")
        self.heads, self.dropout = heads, dropout
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        for linear in (self.qkv, self.out):
            nn.init.xavier_uniform_(linear.weight)
            nn.init.zeros_(linear.bias)

    def forward(self, queries: Tensor, keys: Tensor, values: Tensor, seen: Tensor) -> Tensor:
        """[N, L, w] of queries, and of keys and values [N, P, w]; `seen` [N, L, P] is True where a query sees a key."""
        weights, biases = self.qkv.weight.chunk(3), self.qkv.bias.chunk(3)
        q, k, v = (
            F.linear(x, weight, bias).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for x, weight, bias in zip((queries, keys, values), weights, biases, strict=True)
        )
        some = seen.any(-1, keepdim=True)
        dropout = self.dropout if self.training else 0.0
        attended = F.scaled_dot_product_attention(q, k, v, attn_mask=(seen | ~some)[:, None], dropout_p=dropout)
        found: Tensor = self.out(attended.transpose(1, 2).flatten(-2))
        return found.masked_fill(~some, 0.0)


class CrossModalLayer(nn.Module):
    def __init__(self, width: int, heads: int, dropouts: Dropouts):
        super().__init__()
        self.ln_0, self.ln_1 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = MaskedAttention(width, heads, dropouts.attention)
        self.mlp_in, self.mlp_out = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.hidden, self.residual = nn.Dropout(dropouts.hidden), nn.Dropout(dropouts.residual)
        for linear in (self.mlp_in, self.mlp_out):
            nn.init.xavier_uniform_(linear.weight)
            nn.init.zeros_(linear.bias)

    def forward(self, x: Tensor, others: tuple[Tensor, Tensor] | None, seen: Tensor) -> Tensor:
        normed = self.ln_0(x)
        keys, values = (normed, normed) if others is None else (self.ln_0(other) for other in others)
        x = x + self.residual(self.attention(normed, keys, values, seen))
        return x + self.residual(self.mlp_out(self.hidden(F.relu(self.mlp_in(self.ln_1(x))))))


class CrossModalTransformer(nn.Module):
    def __init__(self, width: int, layers: int, heads: int, dropouts: Dropouts, future: bool = True):
        super().__init__()
        self.future, self.dropout = future, nn.Dropout(dropouts.embedding)
        self.layers = nn.ModuleList(CrossModalLayer(width, heads, dropouts) for _ in range(layers))
        self.ln_final = nn.LayerNorm(width)

    def forward(self, x: Tensor, mask: Tensor, other: Tensor | None = None, other_mask: Tensor | None = None) -> Tensor:
        """Steps [N, L, w] with a mask [N, L] that have looked at `other` [N, P, w], or at themselves: [N, L, w]."""
        keys = mask if other_mask is None else other_mask
        seen = keys[:, None] & (_before(mask, keys) if self.future else mask.new_ones(1, x.shape[1], 1))
        x = self._embedded(x)
        others = None if other is None else (self._embedded(other), self._embedded(other))
        for layer in self.layers:
            x = layer(x, others, seen)
        steps: Tensor = self.ln_final(x)
        return steps

    def _embedded(self, x: Tensor) -> Tensor:
        positions = sinusoidal_positions(x.shape[1], x.shape[2], like=x)
        dropped: Tensor = self.dropout(math.sqrt(x.shape[2]) * x + positions)
        return dropped


def _before(mask: Tensor, keys: Tensor) -> Tensor:
    """Bool [N, L, P]: keys that come no later than a query, where lengths differ by no more than that, too."""
    steps, others = (torch.arange(x.shape[1], device=x.device) for x in (mask, keys))
    ahead = (real_length(keys) - real_length(mask)).abs()
    return others[None, None] <= steps[None, :, None] + ahead[:, None, None]
