"""The transformer both towers are made of: pre-LN or post-LN blocks, fused attention.

Vaswani et al. 2017; the pre-LN form and initialisation of Radford et al. 2021 (CLIP's `initialize_parameters`).

    pre-LN    x ← x + attention(LN(x));   x ← x + MLP(LN(x))
    post-LN   x ← LN(x + attention(x));   x ← LN(x + MLP(x))        BERT, and Sun & Li 2024's text tower
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from equipoise.encoders.packing import Layout
from equipoise.encoders.recomputation import Recompute, checkpointed
from equipoise.types import UserError

EPSILON = 1e-5  # of LayerNorms, as torch has it


def _quick_gelu(x: Tensor) -> Tensor:
    """OpenAI's approximation of GELU; weights trained with it need it."""
    return x * torch.sigmoid(1.702 * x)


def _tanh_gelu(x: Tensor) -> Tensor:
    return F.gelu(x, approximate="tanh")


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": F.gelu,
    "gelu_tanh": _tanh_gelu,
    "quick_gelu": _quick_gelu,
    "relu": F.relu,
}


def activation(name: str) -> Callable[[Tensor], Tensor]:
    if name not in ACTIVATIONS:
        raise UserError(f"activation must be one of {', '.join(ACTIVATIONS)}, not {name!r}")
    return ACTIVATIONS[name]


def check_sizes(**sizes: float) -> None:
    """Raise UserError where a size (width, layers, heads) of a tower's Config is not positive."""
    for name, size in sizes.items():
        if size <= 0:
            raise UserError(f"{name} must be larger than 0, not {size}")


class BareAttention(nn.Module):
    """Multi-head attention without an output map."""

    def __init__(self, width: int, heads: int):
        super().__init__()
        if width % heads:
            raise UserError(f"width {width} cannot be split into {heads} heads; choose heads that divide it")
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)

    def forward(self, x: Tensor, layout: Layout) -> Tensor:
        qkv = self.qkv(x).unflatten(-1, (3, self.heads, -1))
        return layout.attend(qkv).flatten(-2)

    def read(self, x: Tensor, layout: Layout) -> Tensor:
        """The rows of `forward` that are read out [N, m, w]: their queries alone, against all keys and values."""
        return self.query(layout.read(x), x, layout)

    def query(self, queries: Tensor, x: Tensor, layout: Layout) -> Tensor:
        """Attention of other tokens [N, m, w] to those of x, [N, m, w]."""
        width, weight, bias = self.qkv.in_features, self.qkv.weight, self.qkv.bias
        q = F.linear(queries, weight[:width], bias[:width]).unflatten(-1, (self.heads, -1))
        kv = F.linear(x, weight[width:], bias[width:]).unflatten(-1, (2, self.heads, -1))
        return layout.attend_to_read(q, kv).flatten(-2)


class Attention(BareAttention):
    def __init__(self, width: int, heads: int):
        super().__init__(width, heads)
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor, layout: Layout) -> Tensor:
        return self.out(super().forward(x, layout))

    def query(self, queries: Tensor, x: Tensor, layout: Layout) -> Tensor:
        return self.out(super().query(queries, x, layout))


class TransformerBlock(nn.Module):
    def __init__(
        self, width: int, heads: int, mlp_ratio: float, act: str, eps: float = EPSILON, norm_first: bool = True
    ):
        super().__init__()
        self.norm_first = norm_first
        hidden = int(width * mlp_ratio)
        self.ln_1 = nn.LayerNorm(width, eps)
        self.attention = Attention(width, heads)
        self.ln_2 = nn.LayerNorm(width, eps)
        self.mlp_in = nn.Linear(width, hidden)
        self.mlp_out = nn.Linear(hidden, width)
        self.act = activation(act)

    def forward(self, x: Tensor, layout: Layout, classes_only: bool) -> Tensor:
        if not self.norm_first:
            return self._norm_last(x, layout, classes_only)
        if classes_only:
            x = layout.read(x) + self.attention.read(self.ln_1(x), layout)
        else:
            x = x + self.attention(self.ln_1(x), layout)
        return x + self.mlp_out(self.act(self.mlp_in(self.ln_2(x))))

    def _norm_last(self, x: Tensor, layout: Layout, classes_only: bool) -> Tensor:
        if classes_only:
            x = self.ln_1(layout.read(x) + self.attention.read(x, layout))
        else:
            x = self.ln_1(x + self.attention(x, layout))
        return self.ln_2(x + self.mlp_out(self.act(self.mlp_in(x))))


class Transformer(nn.Module):
    """`layers` blocks over tokens in any layout; `recompute` trades time for activation memory (`recomputation.py`).

    With `classes_only` it returns only the tokens that are read out [N, m, w]: the last block computes no others.
    """

    def __init__(
        self,
        width: int,
        layers: int,
        heads: int,
        mlp_ratio: float = 4.0,
        act: str = "gelu",
        eps: float = EPSILON,
        norm_first: bool = True,
    ):
        super().__init__()
        self.recompute: Recompute = False
        self.ends_narrowing = norm_first and mlp_ratio > 1
        self.blocks = nn.ModuleList(
            TransformerBlock(width, heads, mlp_ratio, act, eps, norm_first) for _ in range(layers)
        )
        self._initialise(width, layers)

    def _initialise(self, width: int, layers: int) -> None:
        into_residual = width**-0.5 * (2 * layers) ** -0.5
        for module in self.blocks:
            assert isinstance(module, TransformerBlock)
            nn.init.normal_(module.attention.qkv.weight, std=width**-0.5)
            nn.init.normal_(module.attention.out.weight, std=into_residual)
            nn.init.normal_(module.mlp_in.weight, std=(2 * width) ** -0.5)
            nn.init.normal_(module.mlp_out.weight, std=into_residual)
            for linear in (module.attention.qkv, module.attention.out, module.mlp_in, module.mlp_out):
                nn.init.zeros_(linear.bias)

    def forward(
        self, x: Tensor, layout: Layout, classes_only: bool = False, last: int = 0, prompts: Sequence[Tensor] = ()
    ) -> Tensor:
        """Apply all blocks, or the `last` few. The first of the `prompts` are in x already."""
        blocks = self.blocks[-last:]
        for number, block in enumerate(blocks, 1):
            if 1 < number <= len(prompts):
                x = layout.exchange(x, prompts[number - 1])
            finish = classes_only and number == len(blocks)
            how = self.recompute if self.training else False
            x = checkpointed(block, x, layout, finish, recompute=how, ends_narrowing=self.ends_narrowing)
        return x
