"""Attention that can be looked at: within `Recorded`, fused attention gives its weights away.

    A = softmax(q kᵀ·scale + mask)        [N, h, Lq, Lk]
    o = A v                               [N, h, Lq, d]

A fused kernel never holds A. Here every call of torch's `scaled_dot_product_attention` computes the same by these two
lines, and A and o are kept in the order of the calls, as nodes of the graph: gradients can be asked for. Towers need
not know of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode


@dataclass(frozen=True)
class Attended:
    """One layer's attention."""

    queries: Tensor  # [N, h, Lq, d]
    keys: Tensor  # [N, h, Lk, d]
    weights: Tensor  # A
    output: Tensor  # o


class Recorded(TorchFunctionMode):
    """Context in which the attention of every layer is kept in `layers`."""

    def __init__(self) -> None:
        super().__init__()
        self.layers: list[Attended] = []

    def __torch_function__(self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is not F.scaled_dot_product_attention:
            return func(*args, **(kwargs or {}))
        attended = attend(*args, **(kwargs or {}))
        self.layers.append(attended)
        return attended.output


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Attended:
    """torch's scaled dot-product attention by its definition; in evaluation, so without dropout."""
    if dropout_p or enable_gqa:
        raise NotImplementedError("attention with dropout or grouped queries")
    logits = q @ k.transpose(-2, -1) * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    if is_causal:
        logits = logits.masked_fill(~torch.ones(logits.shape[-2:], dtype=torch.bool, device=q.device).tril(), -math.inf)
    if attn_mask is not None:
        hidden = attn_mask.dtype == torch.bool
        logits = logits.masked_fill(~attn_mask, -math.inf) if hidden else logits + attn_mask
    weights = logits.softmax(-1)
    if not weights.requires_grad:  # frozen weights: the graph starts here
        weights.requires_grad_()
    return Attended(q, k, weights, weights @ v)
