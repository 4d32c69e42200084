"""FILIP from pictures and words to its loss, read aloud; padding changes nothing."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from small_model import random_batch, small_model
from torch.nn import functional as F

from equipoise.objectives import FILIP
from equipoise.readouts import TokenSet
from equipoise.spaces import Sphere, TokenSets
from equipoise.types import Embeddings, Features, UserError

SPACE = TokenSets(4, 8)


def test_filip_equals_the_paper_read_aloud():
    model, batch = small_model(SPACE, readout="token_set"), random_batch(5)
    points = model(batch)
    t = float(model.log_scale.detach())
    patches = model.image_encoder(batch.images).tokens
    words = model.text_encoder(batch.tokens, batch.mask)
    image = F.normalize(model.image_readout.projection(patches), dim=-1)
    text = F.normalize(model.text_readout.projection(words.tokens), dim=-1)
    closest_words, closest_patches = [], []
    for i in range(5):
        own = [text[j][words.mask[j]] for j in range(5)]
        closest_words.append([float((image[i] @ own[j].T).amax(1).mean()) for j in range(5)])
        closest_patches.append([float((image[i] @ own[j].T).amax(0).mean()) for j in range(5)])
    expected = 0.0
    for i in range(5):
        by_image = [math.exp(math.exp(t) * closest_words[i][j]) for j in range(5)]
        by_text = [math.exp(math.exp(t) * closest_patches[j][i]) for j in range(5)]
        expected -= (math.log(by_image[i] / sum(by_image)) + math.log(by_text[i] / sum(by_text))) / 10
    for impl in ("eager", "tiled"):
        loss = FILIP(impl=impl)(points, batch, log_scale=t, space=SPACE)
        assert float(loss.total) == pytest.approx(expected, abs=1e-11)
        assert set(loss.terms) == {"image_to_text", "text_to_image"}


def test_more_padding_changes_nothing():
    model, batch = small_model(SPACE, readout="token_set").eval(), random_batch(5)
    longest = int(batch.mask.sum(1).max())
    short = replace(batch, tokens=batch.tokens[:, :longest], mask=batch.mask[:, :longest])
    torch.testing.assert_close(model(short, ("image", "text")).text, model(batch).text, rtol=0, atol=1e-13)
    garbage = replace(batch, tokens=torch.where(batch.mask, batch.tokens, 7))
    torch.testing.assert_close(model(garbage).text, model(batch).text, rtol=0, atol=1e-13)


def test_a_model_compares_what_it_encodes_as_filip_does():
    model, batch = small_model(SPACE, readout="token_set").eval(), random_batch(4)
    points = model(batch)
    torch.testing.assert_close(model.similarity(points.image, points.text), SPACE.similarity(points.image, points.text))
    assert points.image.shape == points.text.shape == (4, 32)


def test_what_does_not_fit_is_refused():
    with pytest.raises(UserError, match=r"Sphere has points of one"):
        small_model(Sphere(16), readout="token_set")
    u = Sphere(8).project(torch.randn(3, 8))
    with pytest.raises(UserError, match="FILIP compares sets of vectors"):
        FILIP()(Embeddings(image=u, text=u), log_scale=1.0, space=Sphere(8))
    readout = TokenSet.Config().build(4, TokenSets(4, 2), "text")
    with pytest.raises(UserError, match=r"text tower gives 3 tokens"):
        readout(Features(classes=torch.zeros(1, 1, 4), tokens=torch.zeros(1, 3, 4)))
    with pytest.raises(UserError, match="gives class tokens alone"):
        readout(Features(classes=torch.zeros(1, 1, 4)))
