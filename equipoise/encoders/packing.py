"""Layouts of a batch's tokens in memory: which tokens attend to which, and which are read out.

    Even      x [N, L, w]   every sample has L tokens (patches)
    Packed    x [T, w]      the real tokens of all samples, one after the other: no layer sees padding
    Padded    x [N, L, w]   the same samples with their padding, for graphs whose shapes may not depend on the data

Only attention mixes tokens, so it alone needs the layout; every other layer acts on single tokens. Packed attention
stays within a sample. Samples of up to 128 tokens have kernels of their own (on a GPU, in half precision:
`ops/short_attention.py`); where torch has one for longer samples of different lengths it is used; elsewhere queries,
keys and values are padded for the time of the attention alone.

N samples, L the longest, T real tokens of all of them, m tokens read out of each, h heads of d dimensions, w = h·d.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.nn import functional as F

from equipoise.ops.short_attention import serves, short_attention

HAS_VARLEN = torch.__version__ >= "2.11"  # a version, compared as one
EVERYTHING, THE_PAST = (-1, -1), (-1, 0)  # how far a token sees to the left and to the right; -1 is all the way


class Layout(Protocol):
    """The interface of layouts, as attention uses it."""

    def attend(self, qkv: Tensor) -> Tensor:
        """Attention of all tokens to each other: [..., 3, h, d] to [..., h, d]."""

    def read(self, x: Tensor) -> Tensor:
        """The tokens that are read out [N, m, w]."""

    def attend_to_read(self, q: Tensor, kv: Tensor) -> Tensor:
        """Attention of the tokens that are read out, q [N, m, h, d], to all, kv [..., 2, h, d]."""

    def exchange(self, x: Tensor, prompts: Tensor) -> Tensor:
        """Replace each sample's prompts by these [n, w]: the last n tokens of a picture, those behind class tokens or
        start token of a text."""


class Others(Protocol):
    """What attention to tokens of something else needs of a layout."""

    def attend_to_others(self, q: Tensor, kv: Tensor, mask: Tensor | None = None) -> Tensor:
        """Attention of all tokens, q [..., h, d], to those of another layout, kv [N, P, 2, h, d], of which `mask`
        [N, P] is False where they are padding."""


@dataclass(frozen=True)
class Even:
    """Samples of one length."""

    classes: int = 1  # number of first tokens that are read out

    def attend(self, qkv: Tensor) -> Tensor:
        samples, tokens = qkv.shape[:2]
        if serves(qkv, tokens, even=True):
            return short_attention(qkv.flatten(0, 1), None, tokens, causal=False).unflatten(0, (samples, tokens))
        return attention(*qkv.unbind(-3))

    def read(self, x: Tensor) -> Tensor:
        return x[:, : self.classes]

    def attend_to_read(self, q: Tensor, kv: Tensor) -> Tensor:
        return attention(q, *kv.unbind(-3))

    def attend_to_others(self, q: Tensor, kv: Tensor, mask: Tensor | None = None) -> Tensor:
        return attend_even(q, kv, mask)

    def exchange(self, x: Tensor, prompts: Tensor) -> Tensor:
        return torch.cat([x[:, : -len(prompts)], prompts.to(x.dtype).expand(x.shape[0], -1, -1)], dim=1)


@dataclass(frozen=True)
class Packed:
    """Samples of different lengths, packed into one sequence without padding."""

    mask: Tensor  # [N, L] True where a token is real; padding is on the right
    rows: Tensor  # [T] where the real tokens stand in the padded batch, N·L long
    starts: Tensor  # [N + 1] where each sample starts, and where the last one ends
    readers: Tensor  # [N, m] the tokens that are read out; each sees all of its sample
    causal: bool  # the others see only what is before them

    @classmethod
    def of(cls, mask: Tensor, causal: bool, classes: int = 1, total: int | None = None) -> Packed:
        """Layout of samples that are read out at their first `classes` tokens or, causal ones, at their last. `total`
        is T where the caller knows it: else a GPU has to be waited for, and torch.compile makes two graphs."""
        lengths = mask.sum(1)
        ends = lengths.cumsum(0)
        starts = F.pad(ends, (1, 0))
        rows = mask.flatten().nonzero()[:, 0] if total is None else _real_rows(lengths, starts, mask.shape[1], total)
        first = ends - 1 if causal else starts[:-1]
        readers = first[:, None] + torch.arange(classes, device=mask.device)
        return cls(mask, rows, starts.int(), readers, causal)

    def pack(self, x: Tensor) -> Tensor:
        """[N, L, ...] to [T, ...]."""
        return x.flatten(0, 1).index_select(0, self.rows)

    def unpack(self, x: Tensor) -> Tensor:
        """[T, ...] to [N, L, ...] with zeros for padding."""
        shape, rest = self.mask.shape, x.shape[1:]
        return x.new_zeros(shape.numel(), *rest).index_copy_(0, self.rows, x).view(*shape, *rest)

    def attend(self, qkv: Tensor) -> Tensor:
        if serves(qkv, self.mask.shape[1], even=False):
            return short_attention(qkv, self.starts, self.mask.shape[1], self.causal)
        if _has_kernel(qkv):
            q, k, v = qkv.unbind(-3)
            return self._kernel(q, k, v, self.starts, self.mask.shape[1], THE_PAST if self.causal else EVERYTHING)
        q, k, v = self.unpack(qkv).unbind(-3)
        if self.causal:  # which hides padding too, as it comes last
            return self.pack(attention(q, k, v, is_causal=True))
        return self.pack(attention(q, k, v, attn_mask=self.mask[:, None, None]))

    def read(self, x: Tensor) -> Tensor:
        return x.index_select(0, self.readers.flatten()).view(*self.readers.shape, -1)

    def attend_to_read(self, q: Tensor, kv: Tensor) -> Tensor:
        if _has_kernel(kv):
            (n, m), (k, v) = self.readers.shape, kv.unbind(-3)
            starts = torch.arange(0, n * m + 1, m, dtype=torch.int32, device=q.device)
            return self._kernel(q.flatten(0, 1), k, v, starts, m, EVERYTHING).view(q.shape)
        k, v = self.unpack(kv).unbind(-3)
        return attention(q, k, v, attn_mask=self.mask[:, None, None])

    def attend_to_others(self, q: Tensor, kv: Tensor, mask: Tensor | None = None) -> Tensor:
        if mask is not None or not _has_kernel(q):
            return self.pack(attend_even(self.unpack(q), kv, mask))
        from torch.nn.attention.varlen import varlen_attn  # here, as it takes seconds

        (n, places), (k, v) = kv.shape[:2], kv.flatten(0, 1).unbind(-3)
        others = torch.arange(0, n * places + 1, places, dtype=torch.int32, device=q.device)
        attended = varlen_attn(q, k, v, self.starts, others, self.mask.shape[1], places, window_size=EVERYTHING)
        assert isinstance(attended, Tensor)
        return attended

    def exchange(self, x: Tensor, prompts: Tensor) -> Tensor:
        samples, classes = self.readers.shape
        places = self.starts[:-1, None] + torch.arange(classes, classes + len(prompts), device=x.device)
        return x.index_copy(0, places.flatten(), prompts.to(x.dtype).repeat(samples, 1))

    def _kernel(self, q: Tensor, k: Tensor, v: Tensor, starts: Tensor, longest: int, window: tuple[int, int]) -> Tensor:
        from torch.nn.attention.varlen import varlen_attn  # here, as it takes seconds

        attended = varlen_attn(q, k, v, starts, self.starts, longest, self.mask.shape[1], window_size=window)
        assert isinstance(attended, Tensor)  # a tuple only where the log-sum-exp is requested
        return attended


@dataclass(frozen=True)
class Padded:
    """The same as `Packed` for samples that keep their padding."""

    mask: Tensor
    classes: int
    causal: bool

    @classmethod
    def of(cls, mask: Tensor, causal: bool, classes: int = 1, _total: int | None = None) -> Padded:
        return cls(mask, classes, causal)

    def pack(self, x: Tensor) -> Tensor:
        return x

    def unpack(self, x: Tensor) -> Tensor:
        return x * self.mask[..., None].to(x.dtype)

    def attend(self, qkv: Tensor) -> Tensor:
        q, k, v = qkv.unbind(-3)
        return attention(q, k, v, **({"is_causal": True} if self.causal else {"attn_mask": self.mask[:, None, None]}))

    def read(self, x: Tensor) -> Tensor:
        if not self.causal:
            return x[:, : self.classes]
        last = self.mask.long().sum(1) - 1
        return x.gather(1, last[:, None, None].expand(-1, -1, x.shape[-1]))

    def attend_to_read(self, q: Tensor, kv: Tensor) -> Tensor:
        return attention(q, *kv.unbind(-3), attn_mask=self.mask[:, None, None])

    def exchange(self, x: Tensor, prompts: Tensor) -> Tensor:
        behind = self.classes + len(prompts)
        return torch.cat([x[:, : self.classes], prompts.to(x.dtype).expand(x.shape[0], -1, -1), x[:, behind:]], dim=1)


def _real_rows(lengths: Tensor, starts: Tensor, width: int, total: int) -> Tensor:
    """Where the real tokens [T] stand in N rows of `width` that are padded on the right. torch raises where `total`,
    T, is not the sum of `lengths` (on a GPU, by an assertion in its kernel)."""
    samples = torch.repeat_interleave(lengths, output_size=total)
    ahead = torch.arange(len(lengths), device=lengths.device) * width - starts[:-1]  # padding before each sample
    return torch.arange(total, device=lengths.device) + ahead.index_select(0, samples)


def attend_even(q: Tensor, kv: Tensor, mask: Tensor | None = None) -> Tensor:
    """Attention of q [N, L, h, d] to kv [N, P, 2, h, d], where `mask` [N, P] is not False."""
    return attention(q, *kv.unbind(-3), **({} if mask is None else {"attn_mask": mask[:, None, None]}))


def _has_kernel(x: Tensor) -> bool:
    return HAS_VARLEN and x.is_cuda and x.dtype in (torch.bfloat16, torch.float16)


def attention(q: Tensor, k: Tensor, v: Tensor, **options: Any) -> Tensor:
    """Scaled dot-product attention of [N, L, h, d]."""
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    return F.scaled_dot_product_attention(q, k, v, **options).transpose(1, 2)
