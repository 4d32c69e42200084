"""Queues of both sides, points of parts, and pairs that are no negatives."""

from __future__ import annotations

from collections import deque
from dataclasses import replace

import pytest
import torch
from every_space import NAMES, space_named
from small_model import objective_named, random_batch, small_model
from torch.nn import functional as F

from equipoise.heads import LocalPoints, MomentumQueue, Sizes
from equipoise.heads import fusion as fusion_head
from equipoise.models.forward_cache import ForwardCache
from equipoise.spaces import ProductSphere, Sphere
from equipoise.types import Embeddings

MATCHED = ("image", "text", "match_cost", "match_count", "match_right")


@pytest.mark.parametrize("size", [3, 6, 8, 100])
def test_the_queues_are_first_in_first_out(size):
    head = MomentumQueue.Config(size).build(Sizes(Sphere(4), 1, 1, 1)).double()
    expected: dict[str, deque] = {"image_queue": deque(maxlen=size), "text_queue": deque(maxlen=size)}
    make = torch.Generator().manual_seed(0)
    for _ in range(5):
        images, texts = torch.randn(2, 3, 4, generator=make).double()
        head.update_memory(Embeddings(images, texts, momentum_image=images, momentum_text=texts))
        for name, points in (("image_queue", images), ("text_queue", texts)):
            expected[name].extend(points.tolist())
            found = head.recall()[name].tolist()
            assert sorted(found) == sorted(expected[name])
    assert not head.state_dict()  # a memory, no weight
    place = {tuple(row): number for number, row in enumerate(head.recall()["text_queue"].tolist())}
    last = [place[tuple(row)] for row in texts[-min(size, 3) :].tolist()]
    assert head.recall()["image_queue"][last].tolist() == images[-min(size, 3) :].tolist()  # pairs lie at one place


@pytest.mark.parametrize("name", NAMES)
def test_patches_are_pooled_and_mapped_back_to_the_space(name):
    space = space_named(name, 4)
    head = LocalPoints.Config(2).build(Sizes(space, 4, 4, 40))
    patches = space.project(torch.randn(2, 16, 4, generator=torch.Generator().manual_seed(1)).double())
    found = head.pooled(patches)
    for row in range(2):
        for col in range(2):
            inside = [4 * y + x for y in (2 * row, 2 * row + 1) for x in (2 * col, 2 * col + 1)]
            mean = sum(patches[:, number] for number in inside) / 4
            torch.testing.assert_close(found[:, 2 * row + col], space.project(mean), rtol=0, atol=1e-12)
    torch.testing.assert_close(space.project(found), found, rtol=0, atol=1e-12)  # points of the space


@pytest.mark.parametrize("m", [1, 4])
def test_a_patch_and_a_word_are_read_as_whole_samples_are(m):
    space = ProductSphere(4, m)
    heads = {"local": LocalPoints.Config(2)}
    model, batch = small_model(space, readout="class_tokens", heads=heads).eval(), random_batch(3)
    roles = model(batch, ("image", "text", *LocalPoints.roles)).further
    patches = model.image_encoder.ln_post(model.image_encoder(batch.images).tokens)
    words = model.text_encoder(batch.tokens, batch.mask)
    for found, features, readout in (
        (roles["image_locals"], patches, model.image_readout),
        (roles["text_locals"], words.tokens, model.text_readout),
    ):
        for i in range(3):
            for j in range(features.shape[1]):
                sphere = F.normalize(features[i, j] @ readout.projection, dim=0)
                torch.testing.assert_close(found[i, j], sphere.repeat(m), rtol=0, atol=1e-12)
    real = words.mask.shape[1]
    assert roles["text_locals"].shape[1] == roles["text_locals_mask"].shape[1] == 8  # the context
    assert torch.equal(roles["text_locals_mask"][:, :real] > 0, words.mask)
    assert not roles["text_locals_mask"][:, real:].any()


def test_the_same_caption_and_the_same_record_are_no_negatives():
    objective = objective_named("albef")
    model, batch = small_model(heads=objective.heads).eval(), random_batch(4)
    tokens, mask = batch.tokens.clone(), batch.mask.clone()
    tokens[1], mask[1] = tokens[0], mask[0]
    index = torch.tensor([5, 6, 7, 7])
    twins = replace(batch, tokens=tokens, mask=mask, index=index)
    captions, records = fusion_head._same(twins)
    assert captions[0] == captions[1]
    assert len(captions.unique()) == 3
    assert torch.equal(records, index)
    torch.manual_seed(0)
    for _ in range(20):
        texts, images, some = model.heads["fusion"]._negatives(_outputs(model, twins))
        assert some.all()
        for drawn in (texts, images):
            assert set(drawn[:2].tolist()) <= {2, 3}
            assert set(drawn[2:].tolist()) <= {0, 1}


def _outputs(model, batch):
    towers = {"image": model.tower("image"), "text": model.tower("text")}
    return ForwardCache(towers, batch, frozenset(towers), frozenset(), model.log_scale.detach())


def test_a_batch_without_negatives_counts_its_pairs_alone():
    objective = objective_named("albef")
    model, batch = small_model(heads=objective.heads).eval(), random_batch(3)
    alike = replace(batch, tokens=batch.tokens[:1].expand(3, -1), mask=batch.mask[:1].expand(3, -1))
    found = model(alike, MATCHED).further
    assert found["match_count"].tolist() == [[1, 0, 0]] * 3
    assert found["match_cost"][:, 1:].abs().sum() == 0
    found["match_cost"].sum().backward()
    assert all(p.grad.isfinite().all() for p in model.heads["fusion"].match.parameters())


def test_negatives_in_parts_are_the_same(monkeypatch):
    objective = objective_named("albef")
    model, batch = small_model(heads=objective.heads).eval(), random_batch(7)
    costs = []
    for at_once in (1000, 7):
        monkeypatch.setattr(fusion_head, "ROWS", at_once)
        torch.manual_seed(3)
        costs.append(model(batch, MATCHED).further["match_cost"])
    assert torch.equal(*costs)


def test_words_guessed_in_parts_have_the_same_costs_and_gradients(monkeypatch):
    objective, found = objective_named("albef"), []
    for at_once in (1000, 2):
        monkeypatch.setattr(fusion_head, "CHUNK", at_once)
        model, batch = small_model(heads=objective.heads).train(), random_batch(5)
        shares = model(batch, ("image", "text", "words_shares")).further["words_shares"].detach().roll(1, 0)
        taught = replace(batch, common={"momentum_words_shares": shares})
        roles = model(taught, ("image", "text", "words_cost", "words_soft_cost")).further
        (roles["words_cost"] + 2 * roles["words_soft_cost"]).sum().backward()
        found.append((roles["words_cost"], roles["words_soft_cost"], model.text_encoder.words.weight.grad))
    for whole, parts in zip(*found, strict=True):
        torch.testing.assert_close(whole, parts, rtol=0, atol=1e-12)
