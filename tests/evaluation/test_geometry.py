"""Alignment, uniformity, gap and hardness against their definitions, in loops."""

from __future__ import annotations

import math
from importlib import import_module

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import equipoise as eq
from equipoise.evaluation import geometry as under_test
from equipoise.evaluation.geometry import alignment, geometry, modality_gap, uniformity
from equipoise.evaluation.results import metric
from equipoise.spaces import Euclidean, ProductSphere, Space, Sphere, TokenSets
from equipoise.types import UserError


def clouds(space: Space, n: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    make = torch.Generator().manual_seed(seed)
    u, v = (space.project(torch.randn(n, space.dim, generator=make).double()) for _ in range(2))
    return u, v


def square(a: Tensor, b: Tensor) -> float:
    return sum((float(x) - float(y)) ** 2 for x, y in zip(a, b, strict=True))


def alignment_by_hand(u: Tensor, v: Tensor) -> float:
    n = len(u)
    each = [square(u[i], v[i]) - min(square(u[i], v[k]) for k in range(n) if k != i) for i in range(n)]
    return -sum(each) / n


def uniformity_by_hand(u: Tensor, v: Tensor) -> float:
    points = [*u, *v]
    terms = [math.exp(-2 * square(a, b)) for i, a in enumerate(points) for b in points[:i]]
    return -math.log(sum(terms) / len(terms))


@pytest.mark.parametrize("at_once", [2, 3, 1024])
@pytest.mark.parametrize("space", [Sphere(5), ProductSphere(2, 3), ProductSphere(2, 3, "geodesic"), Euclidean(4)])
def test_equals_its_definition(space, at_once, monkeypatch):
    monkeypatch.setattr(under_test, "AT_ONCE", at_once)
    u, v = clouds(space, 7)
    found = geometry(u, v, space)
    similar = [[float(space.similarity(u[i : i + 1], v[j : j + 1])) for j in range(7)] for i in range(7)]
    expected = {
        "image_to_text_alignment": alignment_by_hand(u, v),
        "text_to_image_alignment": alignment_by_hand(v, u),
        "uniformity": uniformity_by_hand(u, v),
        "modality_gap": math.sqrt(square(u.mean(0), v.mean(0))),
        "positive_similarity": sum(similar[i][i] for i in range(7)) / 7,
    }
    for direction, rows in (("image_to_text", similar), ("text_to_image", list(zip(*similar, strict=True)))):
        others = [[rows[i][j] for j in range(7) if j != i] for i in range(7)]
        expected[f"{direction}_closest_negative"] = sum(map(max, others)) / 7
        above = sum(x > rows[i][i] for i in range(7) for x in others[i])
        expected[f"{direction}_negatives_above"] = above / 42
    assert found == pytest.approx(expected, abs=1e-12)
    assert list(found)[:4] == ["image_to_text_alignment", "text_to_image_alignment", "uniformity", "modality_gap"]


def test_the_best_and_the_worst():
    eye = torch.eye(4, dtype=torch.float64)
    cross = torch.cat([eye, -eye])
    assert alignment(eye, eye) == pytest.approx(2.0)  # matches coincide, the rest is a right angle away
    assert alignment(eye, eye.roll(1, 0)) == pytest.approx(-2.0)
    together = eye[:1].expand(5, -1)
    assert (alignment(together, together), uniformity(together, together)) == (0.0, 0.0)  # collapsed
    assert uniformity(eye, -eye) > uniformity(eye, eye) > 0
    assert modality_gap(eye, eye) == 0
    assert modality_gap(together, -together) == pytest.approx(2.0)
    assert uniformity(cross[:4], cross[4:]) == uniformity(eye, -eye)


def test_far_points_do_not_underflow():
    """exp(-2·d²) is 0 in floats; its logarithm is not."""
    u, v = (1000 * x for x in clouds(Euclidean(3), 5))
    closest = min(square(a, b) for i, a in enumerate([*u, *v]) for b in [*u, *v][:i])
    assert uniformity(u, v) == pytest.approx(2 * closest + math.log(45), rel=1e-6)


def test_sets_of_vectors_have_no_distances_but_similarities():
    space = TokenSets(3, 2)
    found = geometry(*clouds(space, 5), space)
    assert "image_to_text_negatives_above" in found
    assert not any("alignment" in name or name in {"uniformity", "modality_gap"} for name in found)


class Largest(TorchDispatchMode):
    """The most numbers that any tensor made meanwhile holds."""

    numbers = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        self.numbers = max([self.numbers, *(x.numel() for x in tree_leaves(result) if isinstance(x, Tensor))])
        return result


def test_no_tensor_is_larger_than_a_block_or_the_points(monkeypatch):
    monkeypatch.setattr(under_test, "AT_ONCE", 16)
    monkeypatch.setattr(import_module("equipoise.spaces.hard_negatives"), "AT_ONCE", 16 * 256)
    space = Sphere(4)
    u, v = clouds(space, 256)
    with Largest() as seen:
        geometry(u, v, space)
    assert seen.numbers <= 16 * 256


def test_the_names_are_explained_and_shown_as_they_are():
    assert metric("image_to_text_alignment").show(-0.25) == "-0.250"
    assert metric("text_to_image_negatives_above").show(0.25) == "25.0%"
    for name in geometry(*clouds(Sphere(4), 4), Sphere(4)):
        assert metric(name).meaning, name


def test_they_are_public():
    u, v = clouds(Sphere(4), 6)
    assert (eq.alignment(u, v), eq.uniformity(u, v)) == (alignment(u, v), uniformity(u, v))


def test_one_pair_gets_a_sentence():
    for measure in (alignment, uniformity):
        with pytest.raises(UserError, match=r"\[1, 4\] and \[1, 4\]"):
            measure(*clouds(Sphere(4), 1))
