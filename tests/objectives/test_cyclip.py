"""CyCLIP's terms against the double sum read aloud, in every space; their gradients, weights and memory."""

from __future__ import annotations

import pytest
import torch
from every_space import NAMES, space_named
from small_model import random_batch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from equipoise.config import load_run
from equipoise.kernels import pair_sums
from equipoise.objectives import CLIP, CyCLIP, M3Mix, SoftCLIP
from equipoise.objectives.consistency import consistency
from equipoise.spaces import Space, Sphere, TokenSets
from equipoise.targets.weighted import PAIR_WEIGHT
from equipoise.types import Embeddings, UserError

T, WEIGHTS = 1.2, [0.9, 0.0, 0.4, 1.0, 0.25, 0.6, 0.3]
IMPLS = pytest.mark.parametrize("impl", ["auto", "eager", "tiled"])


def points(space: Space, n: int = 7, seed: int = 0) -> list[Tensor]:
    make = torch.Generator().manual_seed(seed)
    return [space.project(torch.randn(n, space.dim, generator=make, dtype=torch.float64)) for _ in range(2)]


def by_hand(image: Tensor, text: Tensor, space: Space, weights: list[float] | None = None) -> tuple[float, float]:
    """Both double sums, one pair after the other."""
    n, mass = len(image), weights or [1.0] * len(image)

    def s(x: Tensor, y: Tensor) -> float:
        return float(space.similarity(x[None], y[None]))

    within = across = 0.0
    for i in range(n):
        for j in range(n):
            share = mass[i] * mass[j]
            within += share * (s(image[i], image[j]) - s(text[i], text[j])) ** 2
            across += share * (s(image[i], text[j]) - s(image[j], text[i])) ** 2
    factor = n / sum(mass) ** 2
    return within * factor, across * factor


@pytest.fixture(autouse=True)
def small_tiles(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(pair_sums, "TILE", {"cpu": 3})


@IMPLS
@pytest.mark.parametrize("weights", [None, WEIGHTS])
@pytest.mark.parametrize("name", NAMES)
def test_both_terms_are_the_double_sums(name, weights, impl):
    space = space_named(name, 6)
    image, text = points(space)
    given = None if weights is None else torch.tensor(weights, dtype=torch.float64)
    found = consistency(image, text, space, weights=given, impl=impl)
    assert [float(x) for x in found] == pytest.approx(by_hand(image, text, space, weights), rel=1e-9)


@IMPLS
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_gradients_are_those_of_finite_differences(name, weighted, impl):
    space = space_named(name, 6)
    weights = torch.tensor(WEIGHTS, dtype=torch.float64) if weighted else None

    def terms(u: Tensor, v: Tensor) -> Tensor:
        found = consistency(space.project(u), space.project(v), space, weights=weights, impl=impl)
        return 0.7 * found.in_modal + 1.9 * found.cross_modal

    u, v = (x.requires_grad_() for x in points(space, seed=3))
    assert torch.autograd.gradcheck(terms, (u, v), fast_mode=True)


def test_one_side_may_be_frozen():
    space = Sphere(6)
    for impl in ("auto", "tiled"):
        image, text = points(space)
        consistency(image, text.requires_grad_(), space, impl=impl).in_modal.backward()
        assert text.grad is not None
        both = [x.requires_grad_() for x in points(space)]
        consistency(*both, space, impl=impl).in_modal.backward()
        torch.testing.assert_close(text.grad, both[1].grad)


def test_consistent_points_cost_nothing_in_float32():
    """Equal clouds, turned together: no rest of large numbers is left."""
    space = Sphere(64)
    image = space.project(torch.randn(512, 64, generator=torch.Generator().manual_seed(0)))
    found = consistency(image, image.clone(), space)
    assert [float(x) for x in found] == [0.0, 0.0]
    near = space.project(image + 1e-3 * torch.randn(512, 64, generator=torch.Generator().manual_seed(1)))
    exact = consistency(image.double(), near.double(), space)
    single = consistency(image, near, space)
    assert [float(x) for x in single] == pytest.approx([float(x) for x in exact], rel=1e-3)


def test_half_precision_is_computed_in_single():
    space = Sphere(6)
    image, text = (x.bfloat16() for x in points(space))
    with torch.autocast("cpu", torch.bfloat16):
        found = consistency(image, text, space)
    assert found.in_modal.dtype == torch.float32
    expected = by_hand(image.double(), text.double(), space)
    assert [float(x) for x in found] == pytest.approx(expected, rel=1e-5)


class Largest(TorchDispatchMode):
    numbers = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        sizes = (leaf.numel() for leaf in tree_leaves(result) if isinstance(leaf, Tensor))
        self.numbers = max([self.numbers, *sizes])
        return result


@pytest.mark.parametrize("name", [pytest.param(one, marks=pytest.mark.slow if "geo" in one else ()) for one in NAMES])
def test_nothing_is_n_by_n(name, monkeypatch):
    monkeypatch.setattr(pair_sums, "TILE", {"cpu": 16})
    space, n = space_named(name, 8), 192

    def largest(impl: str) -> int:
        image, text = (x.requires_grad_() for x in points(space, n))
        with Largest() as seen:
            sum(consistency(image, text, space, impl=impl)).backward()
        return seen.numbers

    assert largest("auto") <= 2 * n * 8  # two gradients of the points
    assert largest("eager") >= n * n  # so the check above can fail


def test_the_loss_is_that_of_clip_and_both_terms():
    space = Sphere(6)
    image, text = points(space)
    batch = random_batch(7)
    clip = CLIP()(Embeddings(image, text), batch, log_scale=T, space=space).total
    within, across = by_hand(image, text, space)
    found = CyCLIP()(Embeddings(image, text), batch, log_scale=T, space=space)
    assert float(found.total) == pytest.approx(float(clip) + 0.25 * (within + across), rel=1e-9)
    assert found.terms.keys() == {"contrastive", "in_modal", "cross_modal"}
    one = CyCLIP(in_modal_weight=0.0, cross_modal_weight=0.5)(Embeddings(image, text), log_scale=T, space=space)
    assert one.terms.keys() == {"contrastive", "cross_modal"}
    assert float(one.total) == pytest.approx(float(clip) + 0.5 * across, rel=1e-9)
    none = CyCLIP(in_modal_weight=0.0, cross_modal_weight=0.0)(Embeddings(image, text), log_scale=T, space=space)
    assert none.terms.keys() == {"contrastive"}


def test_the_logit_scale_has_no_part_in_the_terms():
    space = Sphere(6)
    image, text = points(space)
    cold, hot = (CyCLIP()(Embeddings(image, text), log_scale=t, space=space).terms for t in (0.0, 3.0))
    assert cold["in_modal"] == hot["in_modal"]
    assert cold["cross_modal"] == hot["cross_modal"]


def test_all_weights_zero_is_no_nan():
    space = Sphere(6)
    image, text = points(space)
    for impl in ("auto", "tiled"):
        found = consistency(image, text, space, weights=torch.zeros(7), impl=impl)
        assert [float(x) for x in found] == [0.0, 0.0]


def test_it_stands_beside_other_objectives_and_mixups_beside_it():
    space = Sphere(6)
    image, text = points(space)
    regions, tags = points(space, seed=5)
    embeddings = Embeddings(image, text, regions, tags)
    soft = CyCLIP(of=SoftCLIP())(embeddings, log_scale=T, space=space)
    assert soft.terms.keys() == {"soft", "relation", "contrastive", "in_modal", "cross_modal"}
    mixed = M3Mix(of=CyCLIP(), m2_scale_learned=False)
    assert mixed.weighs_pairs
    terms = mixed(embeddings, log_scale=T, space=space).terms
    assert terms.keys() == {"contrastive", "in_modal", "cross_modal", "m2", "v", "l", "vl"}


def test_a_recipe_chooses_it_as_a_base():
    run = load_run("m2mix-noisy-scenes", ("objective.of.name=cyclip", "objective.of.in_modal_weight=0.5")).run
    assert run.objective.of == CyCLIP(in_modal_weight=0.5)


@pytest.mark.parametrize(
    ("settings", "fragment"),
    [
        ({"in_modal_weight": -1.0}, "in_modal_weight must be at least 0"),
        ({"cross_modal_weight": float("nan")}, "cross_modal_weight must be at least 0"),
        ({"impl": "fused"}, "impl must be one of"),
    ],
)
def test_refused_in_a_sentence(settings, fragment):
    with pytest.raises(UserError, match=fragment):
        CyCLIP(**settings)


def test_sets_of_tokens_are_compared_both_ways_or_not_at_all():
    sets = TokenSets(3, 2)
    image, text = points(sets)
    found = consistency(image, text, sets)
    assert [float(x) for x in found] == pytest.approx(by_hand(image, text, sets), rel=1e-9)
    with pytest.raises(UserError, match=r"space\.toward"):
        consistency(image, text, TokenSets(3, 2, toward="rows"))


def test_pairs_of_a_batch_bring_their_weights():
    space, batch = Sphere(6), random_batch(7)
    batch.side[PAIR_WEIGHT] = torch.tensor(WEIGHTS, dtype=torch.float64)
    image, text = points(space)
    found = CyCLIP()(Embeddings(image, text), batch, log_scale=T, space=space).terms
    terms = [float(found["in_modal"]), float(found["cross_modal"])]
    assert terms == pytest.approx(by_hand(image, text, space, WEIGHTS), rel=1e-9)
