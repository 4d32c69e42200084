"""Cross-entropy in tiles of the vocabulary against torch's, in float64: values, gradients, memory."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from equipoise.ops.tiled_vocabulary import tiled_cross_entropy
from equipoise.types import UserError

T, D, V = 11, 5, 17


def parts(dtype: torch.dtype = torch.float64, tokens: int = T, words: int = V) -> tuple[list[Tensor], Tensor]:
    make = torch.Generator().manual_seed(0)
    hidden, weight, bias = (
        torch.randn(*shape, generator=make).to(dtype) * 2 for shape in ((tokens, D), (words, D), (words,))
    )
    labels = torch.randint(words, (tokens,), generator=make)
    labels[2] = labels[5] = -100
    labels[3], labels[4] = 0, words - 1
    return [hidden, weight, bias], labels


@pytest.mark.parametrize("with_bias", [True, False])
@pytest.mark.parametrize("tile", [(3, 4), (1, 1), (11, 17), (100, 100)])
def test_costs_and_gradients_are_torchs(tile, with_bias):
    tensors, labels = parts()
    chosen = tensors if with_bias else tensors[:2]
    upstream = torch.randn(T, generator=torch.Generator().manual_seed(1)).double()
    ours, theirs = ([x.clone().requires_grad_() for x in chosen] for _ in range(2))
    found = tiled_cross_entropy(ours[0], ours[1], labels, *ours[2:], rows=tile[0], words=tile[1])
    expected = F.cross_entropy(F.linear(*theirs), labels, reduction="none")
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)
    pairs = zip(
        torch.autograd.grad(found, ours, upstream), torch.autograd.grad(expected, theirs, upstream), strict=True
    )
    for mine, other in pairs:
        torch.testing.assert_close(mine, other, rtol=0, atol=1e-12)


def test_gradients_are_those_of_finite_differences():
    tensors, labels = parts()
    hidden, weight, bias = (x.requires_grad_() for x in tensors)

    def cost(h: Tensor, w: Tensor, b: Tensor) -> Tensor:
        return tiled_cross_entropy(h, w, labels, b, rows=4, words=6)

    assert torch.autograd.gradcheck(cost, (hidden, weight, bias))


def test_a_padding_word_may_be_what_is_ignored():
    tensors, labels = parts()
    labels = labels.clamp(min=0)
    found = tiled_cross_entropy(*tensors[:2], labels, ignored=0, rows=4, words=6)
    expected = F.cross_entropy(F.linear(*tensors[:2]), labels, ignore_index=0, reduction="none")
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)
    nothing = tiled_cross_entropy(*tensors[:2], torch.zeros_like(labels), ignored=0)
    assert nothing.tolist() == [0.0] * T


def test_large_logits_are_finite():
    tensors, labels = parts(torch.float32)
    hidden = (1e4 * tensors[0]).requires_grad_()
    found = tiled_cross_entropy(hidden, tensors[1], labels, rows=4, words=6)
    found.sum().backward()
    expected = F.cross_entropy(F.linear(hidden, tensors[1]), labels, reduction="none")
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=0.1)  # logits of 1e5 have two digits behind the point
    assert hidden.grad is not None
    assert hidden.grad.isfinite().all()


def test_half_precision_sums_in_single():
    tensors, labels = parts(torch.bfloat16)
    hidden, weight, _ = (x.requires_grad_() for x in tensors)
    with torch.autocast("cpu", torch.bfloat16):
        found = tiled_cross_entropy(hidden, weight, labels, rows=4, words=6)
    assert found.dtype == torch.float32
    found.sum().backward()
    assert hidden.grad.dtype == weight.grad.dtype == torch.bfloat16
    exact = F.cross_entropy(F.linear(hidden.detach().double(), weight.detach().double()), labels, reduction="none")
    torch.testing.assert_close(found.double(), exact, rtol=0.02, atol=0.1)


class Largest(TorchDispatchMode):
    numbers = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        sizes = (leaf.numel() for leaf in tree_leaves(result) if isinstance(leaf, Tensor))
        self.numbers = max([self.numbers, *sizes])
        return result


def test_no_tensor_is_larger_than_a_tile_or_what_is_given():
    tokens, words = 200, 300
    (hidden, weight, bias), labels = parts(tokens=tokens, words=words)
    leaves = [x.requires_grad_() for x in (hidden, weight, bias)]
    with Largest() as seen:
        tiled_cross_entropy(*leaves[:2], labels, leaves[2], rows=32, words=32).sum().backward()
    assert seen.numbers <= words * D
    with Largest() as seen:
        F.cross_entropy(F.linear(*leaves), labels)
    assert seen.numbers >= tokens * words  # so the check above can fail


def test_refused_in_a_sentence():
    (hidden, weight, bias), labels = parts()
    with pytest.raises(UserError, match="label 17 of token 0"):
        tiled_cross_entropy(hidden, weight, torch.full_like(labels, V))
    with pytest.raises(UserError, match="label -1 of token 0"):
        tiled_cross_entropy(hidden, weight, torch.full_like(labels, -1))
    with pytest.raises(UserError, match="hidden"):
        tiled_cross_entropy(hidden, weight[:, 1:], labels)
    with pytest.raises(UserError, match="bias"):
        tiled_cross_entropy(hidden, weight, labels, bias[1:])
