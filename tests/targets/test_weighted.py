"""Weighted pairs: every target and form against loops over rows and columns, in tiles as eagerly, and in ranks."""

from __future__ import annotations

import pytest
import torch
import weighted_by_hand as by_hand
from torch import Tensor

from equipoise.config import load_run
from equipoise.forms import FORMS, CrossEntropy
from equipoise.kernels import contrast
from equipoise.objectives import CLIP
from equipoise.spaces import Sphere
from equipoise.targets import TARGETS
from equipoise.targets.weighted import PAIR_WEIGHT, WeightedPairs
from equipoise.types import Batch, Embeddings, UserError

COUNT, DIM, SCALE = 7, 5, 1.3
WEIGHTS = [1.0, 0.0, 0.5, 0.25, 0.9, 0.1, 0.7]
KEYS = [0, 1, 0, 2, 3, 3, 4]  # captions: who is alike


def made(option):
    return option() if isinstance(option, type) else option


def makes_sense(target: str, form: str) -> bool:
    if not made(FORMS[form]).weighable:
        return False
    try:
        made(FORMS[form]).check(made(TARGETS[target]))
    except UserError:
        return False
    return True


CASES = [(t, f) for t in ("one_hot", "duplicates", "smoothed", "softened") for f in FORMS if makes_sense(t, f)]


def points(count: int = COUNT) -> list[Tensor]:
    """Images, texts, regions and tags."""
    drawn = torch.randn(4, count, DIM, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return list(torch.nn.functional.normalize(drawn, dim=-1))


def batch_of(weights: Tensor | None) -> Batch:
    nothing, side = torch.zeros(COUNT, 1), {"caption": torch.tensor(KEYS)}
    side |= {} if weights is None else {PAIR_WEIGHT: weights}
    return Batch(nothing, nothing.long(), nothing.bool(), torch.arange(COUNT), side)


def loss(points, weights, target="one_hot", form="cross_entropy", impl="eager") -> Tensor:
    objective = CLIP(target=made(TARGETS[target]), form=made(FORMS[form]), impl=impl)
    scale = torch.tensor(SCALE, dtype=points[0].dtype)
    return objective(Embeddings(*points), batch_of(weights), log_scale=scale, space=Sphere(DIM)).total


def in_tiles(points, scale, weights, target, form) -> Tensor:
    space, chosen = Sphere(DIM), made(TARGETS[target])
    bound = chosen.bind(Embeddings(*points), batch_of(weights), log_scale=scale, space=space)
    parts = {"space": space, "form": made(FORMS[form]), "log_scale": scale, "tile": 3}
    return contrast(*points[:2], target=WeightedPairs(bound, weights), impl="tiled", **parts)


@pytest.mark.parametrize(("target", "form"), CASES)
def test_a_loop_over_rows_and_columns_gives_the_same(target, form):
    image, text, regions, tags = points()
    logits, *guides = (
        torch.tensor(SCALE, dtype=torch.float64).exp() * a @ b.T
        for a, b in ((image, text), (regions,) * 2, (tags,) * 2)
    )
    keys = KEYS if target == "duplicates" else list(range(COUNT))
    expected = by_hand.loss(form, target, logits.tolist(), tuple(g.tolist() for g in guides), keys, WEIGHTS)
    found = loss(points(), torch.tensor(WEIGHTS, dtype=torch.float64), target, form)
    assert float(found) == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("impl", ["eager", "tiled"])
@pytest.mark.parametrize(("target", "form"), CASES)
def test_equal_weights_change_nothing(impl, target, form):
    equal = torch.full((COUNT,), 0.3)
    found, plain = (loss(points(), weights, target, form, impl) for weights in (equal, None))
    assert float(found) == pytest.approx(float(plain), rel=1e-13)


@pytest.mark.parametrize(("target", "form"), CASES)
def test_tiles_give_the_loss_and_the_gradients(target, form):
    """Also those of guides and of the scale."""
    scale, weights = torch.tensor(SCALE, dtype=torch.float64), torch.tensor(WEIGHTS, dtype=torch.float64)
    found = []
    for compute in (in_tiles, eagerly):
        leaves = [x.clone().requires_grad_() for x in (*points(), scale)]
        total = compute(leaves[:4], leaves[4], weights, target, form)
        grads = torch.autograd.grad(2.5 * total, leaves, allow_unused=True)
        found.append([total.detach(), *(g for g in grads if g is not None)])
    for tiled, eager in zip(*found, strict=True):
        torch.testing.assert_close(tiled, eager, rtol=0, atol=1e-12)


def eagerly(points, scale, weights, target, form) -> Tensor:
    objective = CLIP(target=made(TARGETS[target]), form=made(FORMS[form]), impl="eager")
    return objective(Embeddings(*points), batch_of(weights), log_scale=scale, space=Sphere(DIM)).total


@pytest.mark.parametrize(("target", "form"), CASES)
def test_gradients_in_tiles_are_those_of_finite_differences(target, form):
    leaves = [x.requires_grad_() for x in (*points(), torch.tensor(0.7).double())]
    weights = torch.tensor(WEIGHTS, dtype=torch.float64)
    assert torch.autograd.gradcheck(
        lambda *x: in_tiles(x[:4], x[4], weights, target, form), leaves, fast_mode=True, check_undefined_grad=False
    )


def test_a_pair_without_weight_is_a_negative_alone():
    image, *others = points()
    image.requires_grad_()
    total = loss([image, *others], torch.tensor(WEIGHTS))
    assert torch.autograd.grad(total, image)[0][1].abs().sum() > 0


def test_weights_of_zero_alone_leave_no_loss():
    assert float(loss(points(), torch.zeros(COUNT))) == 0.0


def test_one_weight_too_few():
    with pytest.raises(UserError, match="6 weights"):
        loss(points(), torch.ones(COUNT - 1))


class Silent(CrossEntropy):
    """A form of one's own that does not say what weights do to it."""

    weighable = False


def test_a_form_that_knows_no_weights_is_refused():
    assert not CLIP(form=Silent()).weighs_pairs
    with pytest.raises(UserError, match="Silent"):
        CLIP(form=Silent())(Embeddings(*points()), batch_of(torch.ones(COUNT)), log_scale=1.0, space=Sphere(DIM))


class Mine(CLIP):
    """An objective of one's own, whose formula may know no weights."""


def test_a_subclass_does_not_inherit_the_promise():
    assert CLIP().weighs_pairs
    assert not Mine().weighs_pairs


@pytest.mark.parametrize("recipe", ["softclip-scenes", "slip-scenes", "filip-scenes", "declip-scenes"])
def test_recipes_of_other_objectives_take_weights(recipe):
    assert load_run(recipe, ["keep.folder=x", "keep.rule=weights"]).run.objective.weighs_pairs


def test_an_objective_without_captions_refuses_them():
    with pytest.raises(UserError, match="do not count in this objective"):
        load_run("clip-scenes", ["objective.name=few_shot_plain", "keep.rule=weights"])
