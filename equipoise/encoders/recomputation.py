"""What a block of an encoder keeps for its gradients in training, and what it computes again for them.

    False     everything is kept
    True      its input alone: the block is passed twice
    "cheap"   its input, and what products and attention gave: norms, activations and sums are made again

Chen et al. 2016, "Training Deep Nets with Sublinear Memory Cost": recompute what is cheap for what it takes. Of each
token a pre-LN block of width w, its MLP four times as wide, keeps 16 w numbers, 10 w with "cheap", w with True.
Attention is fused: its scores are never kept. "cheap" watches every operation in Python, which takes time of its own
where torch.compile does not do it once for all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

CHEAP: Literal["cheap"] = "cheap"
Recompute = bool | Literal["cheap"]

PLAIN = frozenset({"aten::mm", "aten::addmm"})
PRODUCTS = PLAIN | {"aten::bmm", "aten::baddbmm", "aten::convolution", "aten::_scaled_mm"}
FUSED = ("flash_attention", "flash_attention_for_cpu", "efficient_attention", "cudnn_attention")
ATTENTION = {f"aten::_scaled_dot_product_{name}" for name in (*FUSED, "fused_attention_overrideable")}
KEPT = PRODUCTS | ATTENTION | {"torch_attn::_varlen_attn", "equipoise::short_attention"}


def checkpointed(
    block: nn.Module,
    *inputs: Any,
    recompute: Recompute,
    again: Callable[[], AbstractContextManager[Any]] = nullcontext,
    ends_narrowing: bool = False,
) -> Tensor:
    """Call a block in training; `again` makes a context for its second pass. `ends_narrowing` says that the one product
    whose result is narrower than what it reads (an MLP's second) ends the block, and no other operation keeps it."""
    if not recompute:
        made: Tensor = block(*inputs)
        return made
    policy = (_all_but_narrowing if ends_narrowing else _products) if recompute == CHEAP else None
    if not torch.compiler.is_compiling():
        return checkpoint(block, *inputs, use_reentrant=False, context_fn=partial(_contexts, policy, again))
    # one graph holds both passes: it counts once what is counted, and casts alike; a policy is all it can be given
    given: Any = {"context_fn": partial(create_selective_checkpoint_contexts, policy)} if policy else {}
    return checkpoint(block, *inputs, use_reentrant=False, **given)


def _products(_ctx: Any, op: Any, *_args: Any, **_kwargs: Any) -> CheckpointPolicy:
    return CheckpointPolicy.MUST_SAVE if op.name() in KEPT else CheckpointPolicy.PREFER_RECOMPUTE


def _all_but_narrowing(ctx: Any, op: Any, *args: Any, **kwargs: Any) -> CheckpointPolicy:
    """The second pass ends where the last product's operands are there, before it multiplies."""
    if op.name() in PLAIN and args[-1].shape[0] > args[-1].shape[1]:
        return CheckpointPolicy.PREFER_RECOMPUTE
    return _products(ctx, op, *args, **kwargs)


def _contexts(policy: Any, again: Callable[[], AbstractContextManager[Any]]) -> tuple[Any, Any]:
    """Contexts of the first pass and of the second."""
    if policy is None:
        return nullcontext(), again()
    first, second = create_selective_checkpoint_contexts(policy)
    return _all_of(_casts_anew(), first), _all_of(again(), _casts_anew(), second)  # these watch the block alone


@contextmanager
def _casts_anew() -> Iterator[None]:
    """Let autocast cast weights wherever they are used: both passes must do the same operations, and its cache is not
    the same in both where a weight is used twice. (So the gradients of two uses are summed before they are rounded.)"""
    before = torch.is_autocast_cache_enabled()
    torch.set_autocast_cache_enabled(False)
    try:
        yield
    finally:
        torch.set_autocast_cache_enabled(before)


@contextmanager
def _all_of(*contexts: AbstractContextManager[Any]) -> Iterator[None]:
    with ExitStack() as stack:
        for context in contexts:
            stack.enter_context(context)
        yield
