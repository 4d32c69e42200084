"""Points of all classes' prompts: once a batch, in parts where there are many, and never of a part of them."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from small_model import random_batch, small_model

from equipoise.data.source import CLASS_PROMPTS, CLASS_PROMPTS_MASK
from equipoise.models import class_prompts as pivots
from equipoise.training.grad_cache import micro_batches
from equipoise.types import Embeddings, UserError


def test_pivots_are_the_texts_points_whatever_is_read_at_once(monkeypatch):
    model, batch = small_model(), random_batch(6)
    said = replace(batch, tokens=batch.common[CLASS_PROMPTS], mask=batch.common[CLASS_PROMPTS_MASK])
    found = []
    for at_once in (256, 2):
        monkeypatch.setattr(pivots, "AT_ONCE", at_once)
        model.zero_grad()
        points = model(batch, ("image", "pivots")).pivots
        torch.testing.assert_close(points, model.text_points(said), rtol=0, atol=1e-14)
        (points * torch.arange(16)).sum().backward()
        found.append({name: p.grad.clone() for name, p in model.text_encoder.named_parameters()})
    assert found[0]["words.weight"].abs().sum() > 1e-3
    for name, grad in found[0].items():
        torch.testing.assert_close(found[1][name], grad, rtol=0, atol=1e-12)


def test_what_is_common_goes_with_the_last_micro_batch():
    parts = list(micro_batches(random_batch(7), 3))
    assert [len(part) for part in parts] == [3, 3, 1]
    assert [bool(part.common) for part in parts] == [False, False, True]
    assert len(parts[-1].common[CLASS_PROMPTS]) == 5


def test_roles_without_a_text_of_each_sample():
    roles = {"image": torch.zeros(3, 4), "pivots": torch.zeros(5, 4)}
    embeddings = Embeddings.of(roles)
    assert embeddings.text.shape == (0, 4)
    assert list(embeddings.roles()) == ["image", "pivots"]


def test_a_batch_without_prompts_is_refused():
    with pytest.raises(UserError, match=r"make it with Batches\(\.\.\., views=objective\.views\)"):
        small_model()(replace(random_batch(2), common={}), ("image", "pivots"))
