"""Towers: shapes, padding, patch dropout, and that options which must not change a result do not."""

from __future__ import annotations

import pytest
import torch

from equipoise.encoders import IMAGE_ENCODERS, TEXT_ENCODERS, TextTransformer, ViT
from equipoise.encoders.transformer import ACTIVATIONS
from equipoise.types import UserError


def small_vit(**changes) -> ViT:
    torch.manual_seed(0)
    return ViT.Config(**{"patch": 8, "width": 32, "layers": 2, "heads": 2} | changes).build(32)


def small_text(causal: bool) -> TextTransformer:
    torch.manual_seed(0)
    return TextTransformer.Config(causal=causal, width=32, layers=2, heads=2).build(vocabulary=50, context=16)


def padded(lengths: list[int], width: int) -> tuple[torch.Tensor, torch.Tensor]:
    ids = torch.randint(1, 50, (len(lengths), width), generator=torch.Generator().manual_seed(1))
    mask = torch.arange(width) < torch.tensor(lengths)[:, None]
    return ids * mask, mask


def test_vit_gives_a_class_token_and_all_patches():
    features = small_vit()(torch.randn(3, 3, 32, 32))
    assert features.classes.shape == (3, 1, 32)
    assert features.tokens.shape == (3, 16, 32)
    assert features.mask.all()


def test_patches_are_a_strided_convolution():
    vit, images = small_vit(), torch.randn(2, 3, 32, 32)
    torch.testing.assert_close(vit._embed_patches(images), vit.patches(images).flatten(2).transpose(1, 2))


def test_patch_dropout_keeps_its_share_in_training_only():
    vit = small_vit(patch_dropout=0.75)
    images = torch.randn(2, 3, 32, 32)
    assert vit.train()(images).tokens.shape[1] == 4
    assert vit.eval()(images).tokens.shape[1] == 16


@pytest.mark.parametrize("causal", [True, False])
def test_padding_changes_nothing(causal):
    text = small_text(causal).eval()
    ids, mask = padded([5, 9, 3], 9)
    wide_ids, wide_mask = padded([5, 9, 3], 16)
    wide_ids[:, :9] = ids
    wide_ids[:, 9:] = 7  # whatever stands in the padding
    narrow, wide = text(ids, mask), text(wide_ids, wide_mask)
    torch.testing.assert_close(narrow.classes, wide.classes, rtol=0, atol=1e-5)
    alone = text(ids[2:, :3], mask[2:, :3])
    torch.testing.assert_close(alone.classes, narrow.classes[2:], rtol=0, atol=1e-5)


def test_causal_text_is_read_at_its_end_and_bidirectional_text_at_its_start():
    ids, mask = padded([5, 9], 9)
    causal = small_text(True).eval()(ids, mask)
    torch.testing.assert_close(causal.classes[:, 0], torch.stack([causal.tokens[0, 4], causal.tokens[1, 8]]))
    changed = ids.clone()
    changed[:, 3] = 11
    before, after = small_text(False).eval()(ids, mask), small_text(False).eval()(changed, mask)
    assert not torch.allclose(before.classes, after.classes)  # the first token sees the fourth
    earlier = small_text(True).eval()(changed, mask)
    torch.testing.assert_close(causal.tokens[:, :3], earlier.tokens[:, :3])  # a causal one does not look right


def test_recomputing_activations_changes_no_gradient():
    vit, images = small_vit().train(), torch.randn(2, 3, 32, 32)
    grads = []
    for recompute in (False, True):
        vit.transformer.recompute = recompute
        vit.zero_grad()
        vit(images).classes.square().sum().backward()
        grads.append([p.grad.clone() for p in vit.parameters()])
    for plain, recomputed in zip(*grads, strict=True):
        torch.testing.assert_close(plain, recomputed, rtol=0, atol=0)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_every_activation_runs(name):
    assert torch.isfinite(small_vit(activation=name)(torch.randn(1, 3, 32, 32)).classes).all()


@pytest.mark.parametrize(
    ("name", "size", "millions"), [("vit-b32", 224, 87.5), ("vit-b16", 224, 85.8), ("vit-l14", 224, 303.2)]
)
def test_sizes_are_those_of_the_papers(name, size, millions):
    with torch.device("meta"):
        count = sum(p.numel() for p in IMAGE_ENCODERS[name].build(size).parameters())
    assert count / 1e6 == pytest.approx(millions, rel=0.01)


def test_text_sizes_are_those_of_clip():
    with torch.device("meta"):
        count = sum(p.numel() for p in TEXT_ENCODERS["causal-b"].build(49408, 77).parameters())
    assert count / 1e6 == pytest.approx(63.2, rel=0.01)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: ViT.Config(patch=7).build(32), "images of 32 px cannot be cut into patches of 7 px"),
        (lambda: ViT.Config(patch=8, width=30, heads=4).build(32), "width 30 cannot be split into 4 heads"),
        (lambda: ViT.Config(patch_dropout=1.0), "patch_dropout must be in"),
        (lambda: ViT.Config(patch=8, activation="swish").build(32), "activation must be one of gelu"),
        (lambda: small_text(True)(*padded([17], 17)), "17 tokens wide but the text tower has a context of 16"),
    ],
)
def test_what_cannot_be_built_is_refused_with_a_sentence(make, sentence):
    with pytest.raises(UserError, match=sentence):
        make()
