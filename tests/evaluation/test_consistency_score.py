"""The consistency score against neighbours found one by one, in any chunks; ties go to the nearest."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from every_space import NAMES, space_named
from torch import Tensor

from equipoise.evaluation import consistency_score
from equipoise.evaluation.consistency_score import consistency_scores
from equipoise.spaces import Space, Sphere


def by_hand(images: Tensor, labels: list[int], guesses: list[int], space: Space, k: int) -> float:
    agree = 0
    for i in range(len(images)):
        others = sorted((-float(space.similarity(images[i : i + 1], images[j : j + 1])), j)
                        for j in range(len(images)) if j != i)  # fmt: skip
        near = [labels[j] for _, j in others[:k]]
        most = max(Counter(near).values())
        agree += next(label for label in near if near.count(label) == most) == guesses[i]
    return agree / len(images)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("chunk", [3, 1024])
def test_it_counts_what_neighbours_say(name, chunk, monkeypatch):
    monkeypatch.setattr(consistency_score, "COLUMNS", 4)
    space, make = space_named(name, 6), torch.Generator().manual_seed(2)
    images = space.project(torch.randn(23, 6, generator=make, dtype=torch.float64))
    labels, guesses = (torch.randint(3, (23,), generator=make) for _ in range(2))
    found = consistency_scores(images, labels, guesses, space, chunk)
    for k in (1, 5):
        expected = by_hand(images, labels.tolist(), guesses.tolist(), space, k)
        assert found[f"consistency_{k}nn"] == pytest.approx(expected, abs=1e-12)


def test_of_equal_votes_the_nearest_wins():
    angles = torch.tensor([0.0, 0.1, 0.3, 0.6, 1.0, 1.5], dtype=torch.float64)
    images = torch.stack([angles.cos(), angles.sin()], 1)
    labels = torch.tensor([9, 1, 2, 2, 1, 0])  # the first image sees 1, 2, 2, 1, 0
    found = consistency_scores(images, labels, torch.tensor([1, -1, -1, -1, -1, -1]), Sphere(2))
    assert found["consistency_5nn"] == pytest.approx(1 / 6)


def test_few_images_have_fewer_scores():
    images = Sphere(3).project(torch.randn(3, 3))
    numbers = torch.zeros(3, dtype=torch.long)
    assert consistency_scores(images, numbers, numbers, Sphere(3)) == {"consistency_1nn": 1.0}
    assert consistency_scores(images[:1], numbers[:1], numbers[:1], Sphere(3)) == {}
