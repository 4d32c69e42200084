"""The fusion encoder against its formula read aloud, head by head and token by token."""

from __future__ import annotations

import math

import pytest
import torch
from torch.nn import functional as F

from equipoise.encoders.fusion import CrossAttention, FusionEncoder
from equipoise.types import UserError


def some(*shape: int, seed: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).double()


def attention_aloud(queries, keys, values, heads: int) -> torch.Tensor:
    """Of one sample, without padding: [L, w], [P, w], [P, w] to [L, w]."""
    each = queries.shape[1] // heads
    out = torch.zeros_like(queries)
    for h in range(heads):
        part = slice(h * each, (h + 1) * each)
        for token in range(len(queries)):
            logits = torch.stack([queries[token, part] @ key[part] / math.sqrt(each) for key in keys])
            out[token, part] = sum(w * v[part] for w, v in zip(F.softmax(logits, 0), values, strict=True))
    return out


def test_cross_attention_read_aloud():
    torch.manual_seed(0)
    layer = CrossAttention(6, 5, 2).double()
    x, source = some(2, 3, 6, seed=1), some(2, 4, 5, seed=2)
    mask = torch.tensor([[True] * 4, [True, True, False, False]])
    found = layer(x, source, mask)
    for sample, real in ((0, 4), (1, 2)):
        k, v = layer.kv(source[sample, :real]).split(6, 1)
        expected = layer.out(attention_aloud(layer.q(x[sample]), k, v, 2))
        torch.testing.assert_close(found[sample], expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("norm_first", [True, False])
def test_a_block_read_aloud_and_padding_changes_nothing(norm_first):
    torch.manual_seed(0)
    fusion = FusionEncoder.Config(layers=2, heads=2, norm_first=norm_first).build(6, 5).double()
    for parameter in fusion.parameters():
        torch.nn.init.normal_(parameter, std=0.4)
    text, image = some(2, 4, 6, seed=1), some(2, 3, 5, seed=2)
    words = torch.tensor([[True] * 4, [True, True, True, False]])
    patches = torch.tensor([[True] * 3, [True, True, False]])
    found = fusion(text, words, image, patches)
    for sample, length, seen in ((0, 4, 3), (1, 3, 2)):
        x, shown = text[sample, :length], image[sample, :seen]
        for block in fusion.blocks:

            def own(y, block=block):
                return block.attention.out(attention_aloud(*block.attention.qkv(y).split(6, 1), 2))

            def cross(y, block=block, shown=shown):
                keys, values = block.cross.kv(shown).split(6, 1)
                return block.cross.out(attention_aloud(block.cross.q(y), keys, values, 2))

            def mlp(y, block=block):
                return block.mlp_out(F.gelu(block.mlp_in(y)))

            for norm, part in ((block.ln_1, own), (block.ln_2, cross), (block.ln_3, mlp)):
                x = x + part(norm(x)) if norm_first else norm(x + part(x))
        torch.testing.assert_close(found[sample, :length], fusion.ln_final(x), rtol=0, atol=1e-10)


def test_gradients_are_those_of_finite_differences():
    torch.manual_seed(0)
    fusion = FusionEncoder.Config(layers=1, heads=1).build(4, 3).double()
    real = [torch.ones(1, n, dtype=torch.bool) for n in (3, 2)]
    leaves = some(1, 3, 4, seed=1).requires_grad_(), some(1, 2, 3, seed=2).requires_grad_()
    assert torch.autograd.gradcheck(lambda text, image: fusion(text, real[0], image, real[1]), leaves)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"heads": 5}, "width 6 cannot be split into 5 heads"),
        ({"layers": 0}, "layers must be larger than 0"),
        ({"activation": "sine"}, "activation must be one of"),
    ],
)
def test_impossible_sizes_are_refused(settings, sentence):
    with pytest.raises(UserError, match=sentence):
        FusionEncoder.Config(**settings).build(6, 5)
