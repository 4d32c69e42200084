"""Packed tokens and a last block that computes class tokens alone give what each text gives by itself, read aloud."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from equipoise.encoders import TextTransformer, ViT
from equipoise.encoders.packing import HAS_VARLEN, Packed
from equipoise.encoders.transformer import Transformer
from equipoise.objectives import CLIP
from equipoise.spaces import Sphere
from equipoise.training.grad_cache import cached_backward
from equipoise.types import Batch, Embeddings, Lengths

CONTEXT = 9
LENGTHS = [4, 1, 9, 2, 8, 3, 7, 6, 5, 9, 1]


def small_text(causal: bool, layers: int = 2) -> TextTransformer:
    torch.manual_seed(0)
    tower = TextTransformer.Config(causal=causal, width=16, layers=layers, heads=2).build(50, CONTEXT).double()
    for parameter in tower.parameters():  # biases too
        torch.nn.init.normal_(parameter, std=0.3)
    return tower


def texts(lengths: list[int] = LENGTHS, width: int = CONTEXT) -> tuple[Tensor, Tensor]:
    ids = torch.randint(0, 50, (len(lengths), width), generator=torch.Generator().manual_seed(1))
    return ids, torch.arange(width) < torch.tensor(lengths)[:, None]


def blocks_aloud(tower: Transformer, x: Tensor, causal: bool) -> Tensor:
    """[L, w] of one sample, a head at a time."""
    for block in tower.blocks:
        qkv = block.attention.qkv(block.ln_1(x))
        heads = []
        for q, k, v in zip(*(part.chunk(block.attention.heads, -1) for part in qkv.chunk(3, -1)), strict=True):
            scores = q @ k.T / math.sqrt(q.shape[-1])
            if causal:
                scores = scores.masked_fill(torch.ones_like(scores).triu(1).bool(), -math.inf)
            heads.append(scores.softmax(-1) @ v)
        x = x + block.attention.out(torch.cat(heads, -1))
        x = x + block.mlp_out(F.gelu(block.mlp_in(block.ln_2(x))))
    return x


def text_aloud(tower: TextTransformer, ids: Tensor, mask: Tensor) -> tuple[Tensor, list[Tensor]]:
    """Class features [N, 1, w], and those of the words of each text."""
    causal, classes, words = tower.config.causal, [], []
    for row, length in zip(ids, mask.sum(1).tolist(), strict=True):
        x = tower.words(row[:length]) + tower.positions[:length]
        x = tower.ln_final(blocks_aloud(tower.transformer, x, causal))
        classes.append(x[-1:] if causal else x[:1])
        words.append(x if causal else x[1:])
    return torch.stack(classes), words


def gradients(module: torch.nn.Module, output: Tensor) -> dict[str, Tensor]:
    weights = torch.randn(output.shape, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    module.zero_grad()
    (output * weights.to(output)).sum().backward()
    return {name: p.grad.clone() for name, p in module.named_parameters()}


def same(got: dict[str, Tensor], expected: dict[str, Tensor], atol: float = 1e-11) -> None:
    for name, grad in expected.items():
        torch.testing.assert_close(got[name], grad, rtol=0, atol=atol, msg=lambda text, name=name: f"{name}: {text}")


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("classes_only", [True, False])
@pytest.mark.parametrize("recompute", [True, False])
@pytest.mark.parametrize("layers", [1, 2])
def test_packed_texts_equal_each_text_alone(causal, classes_only, recompute, layers):
    tower, (ids, mask) = small_text(causal, layers), texts()
    expected, _ = text_aloud(tower, ids, mask)
    expected_gradients = gradients(tower, expected)
    tower.train().recompute_activations(recompute)
    got = tower(ids, mask, classes_only=classes_only).classes
    torch.testing.assert_close(got, expected, rtol=0, atol=1e-12)
    same(gradients(tower, got), expected_gradients)


@pytest.mark.parametrize("causal", [True, False])
def test_words_come_back_padded_where_they_are_wanted(causal):
    tower, (ids, mask) = small_text(causal), texts()
    _, words = text_aloud(tower, ids, mask)
    features = tower(ids, mask)
    assert features.tokens.shape[:2] == features.mask.shape
    assert features.tokens[~features.mask].abs().sum() == 0
    for row, real, alone in zip(features.tokens, features.mask, words, strict=True):
        torch.testing.assert_close(row[real], alone, rtol=0, atol=1e-12)
    expected_gradients = gradients(tower, torch.cat(words))
    same(gradients(tower, features.tokens[features.mask]), expected_gradients)
    assert tower(ids, mask, classes_only=True).tokens is None


def test_a_vit_that_computes_its_class_token_alone_gives_the_same():
    torch.manual_seed(0)
    vit = ViT.Config(patch=8, width=16, layers=2, heads=2).build(16).double()
    images = torch.randn(3, 3, 16, 16, dtype=torch.float64)
    start = (vit.class_token + vit.positions[:1]).expand(3, -1, -1)
    patches = vit.patches(images).flatten(2).transpose(1, 2) + vit.positions[1:]
    x = vit.ln_pre(torch.cat([start, patches], 1))
    expected = torch.stack([vit.ln_post(blocks_aloud(vit.transformer, sample, False)[:1]) for sample in x])
    expected_gradients = gradients(vit, expected)
    for classes_only in (True, False):
        for recompute in (True, False):
            vit.train().recompute_activations(recompute)
            got = vit(images, classes_only=classes_only).classes
            torch.testing.assert_close(got, expected, rtol=0, atol=1e-12)
            same(gradients(vit, got), expected_gradients)


@pytest.mark.parametrize("classes", [1, 2])
def test_class_tokens_in_front_are_read_together(classes):
    _, mask = texts([2, 5, 3], 6)
    layout = Packed.of(mask, causal=False, classes=classes)
    x = torch.randn(3, 6, 4)
    assert torch.equal(layout.unpack(layout.pack(x)), x * mask[..., None])
    assert torch.equal(layout.read(layout.pack(x)), x[:, :classes])
    qkv = torch.randn(10, 3, 2, 4, dtype=torch.float64)
    q = layout.read(qkv[:, 0].flatten(1)).unflatten(-1, (2, 4))
    expected = layout.read(layout.attend(qkv).flatten(1))
    torch.testing.assert_close(layout.attend_to_read(q, qkv[:, 1:]).flatten(2), expected)


@pytest.mark.parametrize("lengths", [LENGTHS, [9] * 3, [1, 1], [0, 3, 0], []], ids=str)
@pytest.mark.parametrize("causal", [True, False])
def test_a_layout_of_known_lengths_is_the_same_to_the_bit(lengths, causal):
    _, mask = texts(lengths)
    known, asked = Packed.of(mask, causal, total=sum(lengths)), Packed.of(mask, causal)
    for one, other in ((known.rows, asked.rows), (known.starts, asked.starts), (known.readers, asked.readers)):
        assert one.dtype == other.dtype
        assert torch.equal(one, other)


@pytest.mark.parametrize("off", [-1, 1])
def test_a_wrong_total_is_an_error(off):
    _, mask = texts()
    with pytest.raises(RuntimeError, match="allocated size does not match"):
        Packed.of(mask, causal=True, total=sum(LENGTHS) + off)


@pytest.mark.parametrize(("causal", "classes"), [(True, 1), (False, 1), (False, 3)])
@pytest.mark.parametrize("classes_only", [True, False])
def test_a_tower_that_knows_lengths_gives_the_same_to_the_bit(causal, classes, classes_only):
    torch.manual_seed(0)
    tower = TextTransformer.Config(causal=causal, width=16, layers=2, heads=2).build(50, CONTEXT + classes - 1, classes)
    ids, mask = texts()
    found = []
    for lengths in (None, Lengths.of(mask)):
        features = tower(ids, mask, classes_only, lengths)
        found.append([features.classes, *gradients(tower, features.classes).values()])
        if not classes_only:
            found[-1].append(features.tokens)
    for one, other in zip(*found, strict=True):
        assert torch.equal(one, other)


def test_whether_every_text_has_words_is_known_by_lengths():
    for causal, shortest, expected in ((True, 1, 1), (True, 0, 0), (False, 1, 0), (False, 2, 1)):
        ids, mask = texts([4, shortest, 7])
        assert small_text(causal)(ids, mask, lengths=Lengths.of(mask)).at_least == expected
        assert small_text(causal)(ids, mask).at_least == 0


@pytest.mark.parametrize("causal", [True, False])
def test_micro_batches_of_packed_texts_equal_the_whole(causal):
    tower, (ids, mask) = small_text(causal), texts()
    batch, sphere = Batch(torch.zeros(len(ids), 1), ids, mask, torch.arange(len(ids))), Sphere(16)
    images = sphere.project(torch.randn(len(ids), 16, dtype=torch.float64))

    def embed(part: Batch) -> Embeddings:
        points = sphere.project(tower(part.tokens, part.mask, classes_only=True).classes[:, 0])
        return Embeddings(image=images[part.index] + 0 * points, text=points)

    def compare(embeddings: Embeddings):
        return CLIP()(embeddings, batch, log_scale=torch.tensor(1.0), space=sphere)

    found = []
    for micro in (1, 4, len(ids)):
        tower.zero_grad()
        cached_backward(embed, compare, batch, micro, torch.enable_grad)
        found.append({name: p.grad.clone() for name, p in tower.named_parameters()})
    same(found[0], found[2])
    same(found[1], found[2])


@pytest.mark.slow
@pytest.mark.parametrize("causal", [True, False])
def test_a_compiled_tower_gives_the_same_and_is_compiled_once_for_all_lengths(causal):
    from torch._dynamo.testing import CompileCounterWithBackend

    counter = CompileCounterWithBackend("inductor")
    tower = small_text(causal)
    compiled = torch.compile(tower, backend=counter)
    compiles = []
    for lengths in (LENGTHS[:8], [9, 1] * 4, [3] * 8, [2, 9, 4, 4] * 2, [5, 6] * 4, [7] * 8):
        ids, mask = texts(lengths, max(lengths))
        expected, _ = text_aloud(tower, ids, mask)
        expected_gradients = gradients(tower, expected)
        got = compiled(ids, mask, classes_only=True).classes
        torch.testing.assert_close(got, expected, rtol=0, atol=1e-11)
        same(gradients(tower, got), expected_gradients)
        compiles.append(counter.frame_count)
    assert compiles[-1] == compiles[2]


@pytest.mark.slow
@pytest.mark.parametrize("causal", [True, False])
def test_a_tower_that_knows_lengths_is_one_graph_and_compiled_twice_at_most(causal):
    from torch._dynamo.testing import CompileCounter

    torch.compiler.reset()
    counter, tower = CompileCounter(), small_text(causal)
    compiled = torch.compile(tower, backend=counter, fullgraph=True)
    for lengths in (LENGTHS[:8], [9, 1] * 4, [3] * 8, [2, 9, 4, 4] * 2, [5, 6] * 4, [7] * 8):
        ids, mask = texts(lengths, max(lengths))
        torch._dynamo.maybe_mark_dynamic(ids, 1)
        torch._dynamo.maybe_mark_dynamic(mask, 1)
        got = compiled(ids, mask, classes_only=True, lengths=Lengths.of(mask)).classes
        torch.testing.assert_close(got, tower(ids, mask, classes_only=True).classes, rtol=0, atol=1e-11)
    assert counter.frame_count <= 2


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available() or not HAS_VARLEN, reason="needs a GPU and torch 2.11")
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("classes_only", [True, False])
@pytest.mark.parametrize("compiled", [True, False])
def test_the_kernel_for_different_lengths_equals_padded_attention(causal, classes_only, compiled):
    torch.manual_seed(0)
    tower = TextTransformer.Config(causal=causal, width=128, layers=2, heads=2).build(50, CONTEXT)
    ids, mask = texts()
    exact = tower.double()(ids, mask, classes_only).classes.detach()
    expected = gradients(tower, tower(ids, mask, classes_only).classes)
    tower = tower.float().cuda()
    forward = torch.compile(tower) if compiled else tower
    with torch.autocast("cuda", torch.bfloat16):
        got = forward(ids.cuda(), mask.cuda(), classes_only).classes
    torch.testing.assert_close(got.double().cpu(), exact, rtol=0, atol=0.05)
    found = gradients(tower, got.float())
    for name, grad in expected.items():
        off = (found[name].double().cpu() - grad).norm() / grad.norm().clamp_min(1e-3)
        assert off < 0.05, f"{name}: {off:.3f}"
