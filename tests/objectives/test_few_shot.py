"""Images against the prompts of all classes: the paper read aloud, gradients, and where it becomes what is known."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from every_space import space_named
from few_shot_by_hand import ByHand
from torch import Tensor

from equipoise.data.source import CLASSES
from equipoise.kernels import Scoring, contrast
from equipoise.objectives import CLIP, FewShot
from equipoise.objectives.class_contrast import class_contrast
from equipoise.objectives.mixup.class_mix import ClassMix
from equipoise.objectives.mixup.m2mix import m2mix
from equipoise.objectives.mixup.unimodal import v_mix, vl_mix
from equipoise.spaces import Space, Sphere, TokenSets
from equipoise.types import Batch, Embeddings, StepInfo, UserError

SPACE = Sphere(8)
T, T2 = 1.7, 0.9
TERMS = ("m2", "v", "l", "vl")
LABELS = {  # of seven images, among five classes
    "several of a class, one class absent": [0, 2, 2, 3, 0, 2, 4],
    "a single class": [3, 3, 3, 3, 3, 3, 3],
    "one image": [4],
    "the mirror image is of the same class": [1, 0, 2, 4, 2, 0, 1],
}
MANY = LABELS["several of a class, one class absent"]


def points(n: int, classes: int, space: Space = SPACE, seed: int = 0) -> tuple[Tensor, Tensor]:
    make = torch.Generator().manual_seed(seed)
    image, pivots = (torch.randn(k, space.dim, generator=make, dtype=torch.float64) for k in (n, classes))
    return space.project(image), space.project(pivots)


def batch_of(labels: list[int], classes: int = 5, step: int = 3) -> Batch:
    """Classes are known by fingerprints, in no order."""
    names = torch.tensor([41, -7, 1 << 50, 0, 12, 3, 99][:classes])
    n, nothing = len(labels), torch.zeros(len(labels), 1)
    moment = StepInfo(seed=5, step=step, steps=9, epoch_steps=2)
    side = {"label": names[labels]}
    return Batch(nothing, nothing.long(), nothing.bool(), torch.arange(n) + 100, side, moment, {CLASSES: names})


@pytest.mark.parametrize("case", LABELS)
def test_every_term_equals_the_paper_read_aloud(case):
    labels = LABELS[case]
    image, pivots = points(len(labels), 5)
    weights = {"m2_weight": 0.3, "v_weight": 0.2, "l_weight": 0.4, "vl_weight": 0.1}
    objective = FewShot(**weights, m2_scale=math.exp(T2), m2_scale_learned=False)
    batch = batch_of(labels)
    loss = objective(Embeddings.of({"image": image, "pivots": pivots}), batch, log_scale=T, space=SPACE)
    hand, hand2 = (ByHand(image, pivots, torch.tensor(labels), math.exp(t)) for t in (T, T2))
    lam = {term: objective.share(batch.moment, term) for term in TERMS}
    assert len(set(lam.values())) == 4
    expected = {
        "classes": hand.classes(),
        "m2": hand2.m2(lam["m2"]),
        "v": hand.v(lam["v"]),
        "l": hand.vocal(lam["l"]),
        "vl": hand.vl(lam["vl"]),
    }
    assert {name: float(value) for name, value in loss.terms.items()} == pytest.approx(expected, abs=1e-12)
    mixed = sum(weights[f"{term}_weight"] * expected[term] for term in TERMS)
    assert batch.moment.epoch == 2
    assert float(loss.total) == pytest.approx(expected["classes"] + mixed / 2, abs=1e-12)


@pytest.mark.parametrize("name", ["sphere", "product_sphere-geodesic", "euclidean"])
def test_with_one_image_a_class_it_is_what_pairs_have(name):
    """In whatever order the classes come: CLIP, m²-, V-, L- and VL-Mix of the images and their own prompts."""
    space, labels, lam = space_named(name, 8), torch.tensor([3, 0, 4, 1, 2]), 0.3
    image, pivots = points(5, 5, space)
    text, scoring = pivots[labels], Scoring(space, T)
    clip = CLIP().loss(Embeddings(image, text), None, scoring).total
    torch.testing.assert_close(class_contrast(image, pivots, labels, scoring), clip, rtol=0, atol=1e-12)
    mix = ClassMix(image, pivots, labels)
    pairs = {
        "m2": m2mix(image, text, lam, scoring),
        "v": v_mix(image, text, lam, scoring),
        "l": v_mix(text, image, lam, scoring),
        "vl": vl_mix(image, text, lam, scoring),
    }
    for term, expected in pairs.items():
        torch.testing.assert_close(mix(term, lam, scoring), expected, rtol=0, atol=1e-12)


def test_one_image_of_two_classes_pulls_toward_its_own_prompt():
    image, pivots = points(1, 2)
    found = class_contrast(image, pivots, torch.tensor([1]), Scoring(SPACE, T))
    logits = math.exp(T) * (image @ pivots.T)[0]
    assert float(found) == pytest.approx(float(logits.logsumexp(0) - logits[1]) / 2, abs=1e-12)  # alone among images: 0


@pytest.mark.slow
@pytest.mark.parametrize(("name", "impl"), [("sphere", "tiled"), ("product_sphere-geodesic", "eager")])
def test_gradients_equal_finite_differences(name, impl):
    space, labels = space_named(name, 4), torch.tensor([0, 2, 2, 0])
    leaves = [x.requires_grad_() for x in points(4, 4, space, seed=3)]
    scales = [torch.tensor(t, dtype=torch.float64, requires_grad=True) for t in (0.8, 0.4)]

    def total(image: Tensor, pivots: Tensor, t: Tensor, t2: Tensor) -> Tensor:
        image, pivots = space.project(image), space.project(pivots)
        mix = ClassMix(image, pivots, labels, impl)
        mixed = torch.stack([mix(term, 0.3, Scoring(space, t2 if term == "m2" else t)) for term in TERMS]).sum()
        return class_contrast(image, pivots, labels, Scoring(space, t), impl=impl) + mixed

    assert torch.autograd.gradcheck(total, (*leaves, *scales))


def test_tiles_change_nothing(monkeypatch):
    monkeypatch.setattr(contrast, "__kwdefaults__", {**contrast.__kwdefaults__, "tile": 2})
    found = []
    for impl in ("eager", "tiled"):
        leaves = [x.requires_grad_() for x in points(7, 5)]
        objective = FewShot(m2_scale=0.0, impl=impl, per_epoch=False)
        embeddings = Embeddings.of(dict(zip(("image", "pivots"), leaves, strict=True)))
        total = objective(embeddings, batch_of(MANY), log_scale=T, space=SPACE).total
        found.append((total.detach(), *torch.autograd.grad(total, leaves)))
    for eager, tiled in zip(*found, strict=True):
        torch.testing.assert_close(tiled, eager, rtol=0, atol=1e-12)


def test_prompts_that_are_equal_or_opposite_are_finite():
    """Where the authors' mix is 0/0: identical prompts, an image on its prompt, one on the opposite side."""
    pivots = SPACE.project(torch.randn(3, 8, generator=torch.Generator().manual_seed(1)))
    pivots[1] = pivots[0]
    image = torch.stack([pivots[0], -pivots[1], pivots[2], pivots[2]]).requires_grad_()
    objective = FewShot(m2_scale_learned=False)
    embeddings = Embeddings.of({"image": image, "pivots": pivots.requires_grad_()})
    total = objective(embeddings, batch_of([0, 1, 2, 2], classes=3), log_scale=T, space=SPACE).total
    for grad in torch.autograd.grad(total, [image, pivots]):
        assert grad.isfinite().all()


def test_order_of_the_batch_and_of_the_classes_does_not_matter():
    image, pivots = points(7, 5)
    y, turn, renamed = torch.tensor(MANY), torch.randperm(7), torch.tensor([2, 0, 4, 1, 3])
    plain = class_contrast(image, pivots, y, Scoring(SPACE, T))
    moved = torch.empty_like(pivots)
    moved[renamed] = pivots
    other = class_contrast(image[turn], moved, renamed[y[turn]], Scoring(SPACE, T))
    torch.testing.assert_close(other, plain, rtol=0, atol=1e-12)
    lam, mix, scoring = 0.4, ClassMix(image, pivots, y), Scoring(SPACE, T)
    for term in TERMS:
        found = ClassMix(image, moved, renamed[y])(term, lam, scoring)
        torch.testing.assert_close(found, mix(term, lam, scoring), rtol=0, atol=1e-12)


def test_any_space_will_do_without_mixups_and_one_without_geodesics_not_with_them():
    sets = TokenSets(2, 8)
    image, pivots = points(7, 5, sets)
    embeddings, batch = Embeddings.of({"image": image, "pivots": pivots}), batch_of(MANY)
    plain = FewShot(m2_weight=0, v_weight=0, l_weight=0, vl_weight=0)
    assert plain.needs == ("image", "pivots")
    assert float(plain(embeddings, batch, log_scale=0.0, space=sets).total) > 0
    with pytest.raises(UserError, match="has no geodesics to mix along"):
        replace(plain, m2_weight=0.1, m2_scale=0.0)(embeddings, batch, log_scale=0.0, space=sets)


def test_facts_say_how_many_of_the_batch_are_recognised():
    image, pivots = points(7, 5)
    objective = FewShot(m2_scale_learned=False)
    facts = objective(
        Embeddings.of({"image": image, "pivots": pivots}), batch_of(MANY), log_scale=T, space=SPACE
    ).facts()
    similarity = image @ pivots.T
    assert facts["batch/accuracy"] == pytest.approx(float((similarity.argmax(1) == torch.tensor(MANY)).double().mean()))
    assert 0 <= facts["mix/above_class"] <= 1


def test_what_is_missing_is_said():
    image, pivots = points(7, 5)
    embeddings, batch = Embeddings.of({"image": image, "pivots": pivots}), batch_of(MANY)
    objective = FewShot(m2_scale_learned=False)
    strange = replace(batch, side={"label": torch.tensor([41, 0, 5, 12, -7, 6, 0])})
    with pytest.raises(UserError, match=r"^2 of 7 samples are of no class \(record 102 is the first\)"):
        objective(embeddings, strange, log_scale=T, space=SPACE)
    with pytest.raises(UserError, match="looks at the class of every sample"):
        objective(embeddings, replace(batch, common={}), log_scale=T, space=SPACE)
    with pytest.raises(UserError, match="give pivots="):
        objective(Embeddings(image, image), batch, log_scale=T, space=SPACE)
    with pytest.raises(UserError, match="vl_weight must be at least 0"):
        FewShot(vl_weight=-0.1)
