"""Attention among the tokens of short samples, up to 256 tokens: a sample's head is one program, scores never leave it.

    out_i = Σ_j p_ij v_j,   p_i = softmax_j(<q_i, k_j>/√d)        j in the sample of i, and j <= i if causal

qkv [T, 3, h, d], the tokens of all samples one after the other, to [T, h, d]; `starts` [N + 1] says where each sample
starts, None that all have `longest` tokens. Flash attention is made for long samples: it pads 50 patches or 20 words to
tiles of 128, adds up the queries' gradients in memory and leaves those of q, k and v apart, to be copied together.
Here a tile is as large as the longest sample, and the gradients of q, k and v are one tensor.
Products of bfloat16 (or float16) numbers are summed in float32; p is rounded for the products it enters.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from equipoise.ops.triton_support import why_unavailable

LONGEST = 128  # tokens of a sample that a GPU was timed with; the kernels go on to 256
AT_ONCE = 128  # tokens whose scores among themselves fit into a program's registers
FULL = 0.55  # of a tile beyond 64 tokens: of samples that fill less of it, flash attention is as fast
ROWS = 64  # of scores at a time, of longer samples
HEADS = (16, 32, 64)  # dimensions of a head
CAPABILITY = (9, 0)  # of GPUs that have the shared memory these tiles need, and that they were timed on
_WORKING = {"cuda": False}  # whether the kernels run on the GPU that was tried


def try_kernels(device: torch.device) -> None:
    """Let attention go by the kernels if they run on `device`. Called before a model is compiled: a graph that is being
    traced cannot try anything."""
    able = device.type == "cuda" and torch.cuda.get_device_capability(device) >= CAPABILITY
    _WORKING["cuda"] = able and why_unavailable(torch.empty(0, device=device), _smoke_test) is None


def serves(qkv: Tensor, longest: int, even: bool) -> bool:
    """Whether the kernels compute this attention: half precision on a GPU that was tried, short samples; `even` if all
    have `longest` tokens."""
    halves = qkv.dtype in (torch.bfloat16, torch.float16)
    if not _WORKING["cuda"] or not qkv.is_cuda or not halves or qkv.shape[-1] not in HEADS:
        return False
    return longest <= LONGEST and not (even and 64 < longest < FULL * 128)


def short_attention(qkv: Tensor, starts: Tensor | None, longest: int, causal: bool) -> Tensor:
    """[T, 3, h, d] to [T, h, d], differentiable in qkv."""
    attended, _ = _forward(qkv.contiguous(), starts, longest, causal)
    return attended


@torch.library.custom_op("equipoise::short_attention", mutates_args=())
def _forward(qkv: Tensor, starts: Tensor | None, longest: int, causal: bool) -> tuple[Tensor, Tensor]:
    """The output, and of longer samples log2 of each token's sum [T, h]."""
    from equipoise.ops import short_attention_triton as kernels

    out, sums = _results(qkv, longest)
    if longest <= AT_ONCE:
        _launch(kernels.attend_short, (qkv, out), starts, longest, causal)
    else:
        _launch(kernels.attend_rows, (qkv, out, sums), starts, longest, causal)
    return out, sums


@torch.library.custom_op("equipoise::short_attention_backward", mutates_args=())
def _backward(
    upstream: Tensor, qkv: Tensor, out: Tensor, sums: Tensor, starts: Tensor | None, longest: int, causal: bool
) -> Tensor:
    from equipoise.ops import short_attention_triton as kernels

    grads, g = torch.empty_like(qkv), upstream.contiguous()
    if longest <= AT_ONCE:
        _launch(kernels.attend_short_backward, (qkv, g, grads), starts, longest, causal)
    else:
        _launch(kernels.attend_rows_backward, (qkv, out, sums, g, grads), starts, longest, causal)
    return grads


@_forward.register_fake
def _(qkv: Tensor, _starts: Tensor | None, longest: int, _causal: bool) -> tuple[Tensor, Tensor]:
    return _results(qkv, longest)


@_backward.register_fake
def _(_upstream: Tensor, qkv: Tensor, *_others: Any) -> Tensor:
    return torch.empty_like(qkv)


def _results(qkv: Tensor, longest: int) -> tuple[Tensor, Tensor]:
    tokens, _, heads, dim = qkv.shape
    kept = heads if longest > AT_ONCE else 0
    return qkv.new_empty(tokens, heads, dim), qkv.new_empty(tokens, kept, dtype=torch.float32)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    qkv, starts, ctx.longest, ctx.causal = inputs
    ctx.save_for_backward(qkv, *output, starts)
    ctx.set_materialize_grads(False)


def _grads(ctx: Any, upstream: Tensor, _of_sums: Tensor | None) -> tuple[Tensor | None, ...]:
    qkv, out, sums, starts = ctx.saved_tensors
    return _backward(upstream, qkv, out, sums, starts, ctx.longest, ctx.causal), None, None, None


_forward.register_autograd(_grads, setup_context=_keep)


def _launch(kernel: Any, tensors: tuple[Tensor, ...], starts: Tensor | None, longest: int, causal: bool) -> None:
    tokens, _, heads, dim = tensors[0].shape
    samples = tokens // longest if starts is None else len(starts) - 1
    tile = max(16, 1 << (longest - 1).bit_length())
    cut = {"H": heads, "D": dim, "B": tile, "EVEN": starts is None, "CAUSAL": causal, "num_warps": min(8, tile // 16)}
    if longest > AT_ONCE:
        cut |= {"R": ROWS}
    places = tensors[0] if starts is None else starts
    if samples:
        with torch.cuda.device_of(tensors[0]):
            kernel[(samples * heads,)](*tensors, places, longest, dim**-0.5, **cut)


def _smoke_test(device: torch.device) -> None:
    qkv = torch.zeros(16, 3, 1, 16, dtype=torch.bfloat16, device=device)
    _backward(qkv[:, 0], qkv, *_forward(qkv, None, 16, True), None, 16, True)
