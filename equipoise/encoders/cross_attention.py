"""Attention of tokens to those of something else: of learned queries to patches, of words to a picture.

    y = softmax(q kᵀ / √d) v W_out,   q = W_q x,   k, v = W_kv z          x [N, L, w] asks, z [N, P, w'] is asked

Vaswani et al. 2017, §3.2.3 ("encoder-decoder attention"). Keys and values of z do not depend on x, so they are made
once however often they are asked (`keys_values`).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from equipoise.encoders.packing import Others
from equipoise.encoders.transformer import EPSILON, activation
from equipoise.types import UserError


class CrossAttention(nn.Module):
    """Queries are `width` wide, what they ask `other_width`."""

    def __init__(self, width: int, other_width: int, heads: int):
        super().__init__()
        if width % heads:
            raise UserError(f"width {width} cannot be split into {heads} heads; choose heads that divide it")
        self.heads = heads
        self.q = nn.Linear(width, width)
        self.kv = nn.Linear(other_width, 2 * width)
        self.out = nn.Linear(width, width)
        self.initialise(width**-0.5)

    def initialise(self, out: float) -> None:
        """Draw the weights, those of the output map with a deviation of `out`."""
        nn.init.normal_(self.q.weight, std=self.q.in_features**-0.5)
        nn.init.normal_(self.kv.weight, std=self.kv.in_features**-0.5)
        nn.init.normal_(self.out.weight, std=out)
        for linear in (self.q, self.kv, self.out):
            nn.init.zeros_(linear.bias)

    def keys_values(self, other: Tensor) -> Tensor:
        """[N, P, w'] to [N, P, 2, h, d]."""
        return self.kv(other).unflatten(-1, (2, self.heads, -1))

    def forward(self, x: Tensor, keys_values: Tensor, layout: Others, mask: Tensor | None = None) -> Tensor:
        """What x finds, laid out as x; `mask` [N, P] is False where a token that is asked is padding."""
        q = self.q(x).unflatten(-1, (self.heads, -1))
        return self.out(layout.attend_to_others(q, keys_values, mask).flatten(-2))


class CrossBlock(nn.Module):
    """x ← x + attention(LN(x), LN(z));   x ← x + MLP(LN(x))"""

    def __init__(self, width: int, other_width: int, heads: int, mlp_ratio: float, act: str, layers: int):
        super().__init__()
        hidden, into_residual = int(width * mlp_ratio), width**-0.5 * (2 * layers) ** -0.5
        self.ln_1 = nn.LayerNorm(width, EPSILON)
        self.ln_other = nn.LayerNorm(other_width, EPSILON)
        self.attention = CrossAttention(width, other_width, heads)
        self.attention.initialise(into_residual)
        self.ln_2 = nn.LayerNorm(width, EPSILON)
        self.mlp_in = nn.Linear(width, hidden)
        self.mlp_out = nn.Linear(hidden, width)
        self.act = activation(act)
        nn.init.normal_(self.mlp_in.weight, std=(2 * width) ** -0.5)
        nn.init.normal_(self.mlp_out.weight, std=into_residual)
        for linear in (self.mlp_in, self.mlp_out):
            nn.init.zeros_(linear.bias)

    def keys_values(self, other: Tensor) -> Tensor:
        return self.attention.keys_values(self.ln_other(other))

    def forward(self, x: Tensor, keys_values: Tensor, layout: Others, mask: Tensor | None) -> Tensor:
        x = x + self.attention(self.ln_1(x), keys_values, layout, mask)
        return x + self.mlp_out(self.act(self.mlp_in(self.ln_2(x))))


class AttentionalPooler(nn.Module):
    """As many features of a picture as there are learned queries: one layer of attention to its patches.

    Lee et al. 2019, "Set Transformer"; Yu et al. 2022 (CoCa), §3.2, with LayerNorms on queries and keys.
    """

    def __init__(self, width: int, other_width: int, queries: int, heads: int):
        super().__init__()
        self.query = nn.Parameter(torch.randn(queries, width))
        self.ln_q = nn.LayerNorm(width, EPSILON)
        self.ln_k = nn.LayerNorm(other_width, EPSILON)
        self.attention = CrossAttention(width, other_width, heads)

    def forward(self, tokens: Tensor, layout: Others) -> Tensor:
        """[N, P, w'] to [N, queries, w]."""
        asked = self.attention.keys_values(self.ln_k(tokens))
        return self.attention(self.ln_q(self.query).expand(len(tokens), -1, -1), asked, layout)
