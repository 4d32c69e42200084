"""Precomputed features pass on as they are: vectors, tokens, class tokens, and nothing that is no feature."""

from __future__ import annotations

import pytest
import torch
from PIL import Image
from torch.nn import functional as F

from equipoise.data.preprocess import Preprocess
from equipoise.data.source import IMAGE_MASK
from equipoise.data.tokenizer import NoTokenizer
from equipoise.encoders import IMAGE_ENCODERS, TEXT_ENCODERS
from equipoise.encoders.precomputed import PrecomputedImage, PrecomputedText
from equipoise.models.logit_scale import LogitScale
from equipoise.models.model import Model
from equipoise.readouts import ClassToken
from equipoise.spaces import Sphere
from equipoise.types import Batch, UserError

W = 6


@pytest.fixture
def model() -> Model:
    torch.manual_seed(0)
    return Model(
        image=IMAGE_ENCODERS["precomputed"](width=W, dropout=0.5),
        text=TEXT_ENCODERS["precomputed"](width=4),
        readout=ClassToken.Config(),
        space=Sphere(3),
        temperature=LogitScale(),
        preprocess=Preprocess(8),
        tokens=NoTokenizer(),
    )


def test_a_vector_is_the_one_class_token():
    encoder = PrecomputedText.Config(width=W, normalise=False).build(0, 0)
    x = torch.randn(3, W)
    features = encoder(x)
    assert torch.equal(features.classes, x[:, None])
    assert torch.equal(features.tokens, x[:, None])
    assert features.mask.tolist() == [[True]] * 3


def test_class_features_of_tokens_are_the_mean_of_the_real_ones():
    encoder = PrecomputedImage.Config(width=W).build(0)
    x, lengths = torch.randn(3, 4, W), [4, 1, 2]
    mask = torch.arange(4) < torch.tensor(lengths)[:, None]
    features = encoder(x, mask)
    for row, length in enumerate(lengths):
        normed = torch.stack([(token - token.mean()) / (token.var(unbiased=False) + 1e-5).sqrt() for token in x[row]])
        torch.testing.assert_close(features.classes[row, 0], normed[:length].mean(0))
        torch.testing.assert_close(features.tokens[row], normed)
    assert torch.equal(features.mask, mask)
    torch.testing.assert_close(encoder(x).classes[:, 0], encoder(x).tokens.mean(1))  # without a mask all are real


def test_first_tokens_may_be_class_tokens():
    encoder = PrecomputedImage.Config(width=W, normalise=False, classes=2).build(0)
    x, mask = torch.randn(3, 5, W), torch.ones(3, 5, dtype=torch.bool)
    features = encoder(x, mask)
    assert torch.equal(features.classes, x[:, :2])
    assert torch.equal(features.tokens, x[:, 2:])
    assert features.mask.shape == (3, 3)


def test_dropout_is_for_training_alone(model):
    x = torch.randn(5, W)
    assert not torch.equal(model.image_encoder(x).classes, model.image_encoder(x).classes)
    assert torch.equal(model.encode_image(x), model.encode_image(x))
    assert model.training


def test_the_model_reads_features(model):
    model.eval()
    x, t = torch.randn(5, W), torch.randn(7, 4)
    images, texts = model.encode_image(x, batch_size=2), model.encode_text(t.half(), batch_size=3)
    expected = F.normalize(F.layer_norm(x, (W,)) @ model.image_readout.projection, dim=-1)
    torch.testing.assert_close(images, expected)
    assert model.similarity(images, texts).shape == (5, 7)


def test_masks_reach_the_encoder_in_training_and_encoding(model):
    model.eval()
    x, mask = torch.randn(4, 3, W), torch.arange(3) < torch.tensor([3, 1, 2, 1])[:, None]
    x[~mask] = 100.0  # must not matter
    other = x.masked_fill(~mask[..., None], -7.0)
    one = torch.ones(4, 1, dtype=torch.bool)
    batch, changed = (
        Batch(values, torch.randn(4, 4), one, torch.arange(4), {IMAGE_MASK: mask}) for values in (x, other)
    )
    points = model(batch).image
    torch.testing.assert_close(points, model(changed).image)
    torch.testing.assert_close(points, model.encode_image(x, batch_size=3, mask=mask))
    torch.testing.assert_close(points[1:2], model.encode_image(x[1:2, :1]))


def test_pictures_and_words_are_refused(model):
    for images in (Image.new("RGB", (8, 8)), "a.jpg", torch.zeros(1, 3, 8, 8, dtype=torch.uint8)):
        with pytest.raises(UserError, match="trained on precomputed features and cannot read pictures"):
            model.encode_image(images)
    for texts in ("a fish", ["a", "b"]):
        with pytest.raises(UserError, match="cannot read words"):
            model.encode_text(texts)
    with pytest.raises(UserError, match=r"shape \[2, 5\]; give \[N, 6\]"):
        model.encode_image(torch.zeros(2, 5))


def test_a_model_of_words_needs_a_tokeniser():
    with pytest.raises(UserError, match="no tokenizer"):
        Model(
            image=PrecomputedImage.Config(width=W),
            text=TEXT_ENCODERS["causal-nano"],
            readout=ClassToken.Config(),
            space=Sphere(3),
            temperature=LogitScale(),
            preprocess=Preprocess(8),
            tokens=NoTokenizer(),
        )


@pytest.mark.parametrize("wrong", [{"width": 0}, {"dropout": 1.0}, {"classes": -1}])
def test_settings_that_make_no_sense(wrong):
    with pytest.raises(UserError, match=next(iter(wrong))):
        PrecomputedImage.Config(**wrong)
