"""CoCa's loss against its sum read aloud, with weights of pairs, and with mixups beside it."""

from __future__ import annotations

import pytest
import torch
from small_coca import DECODER, small_coca
from small_model import random_batch

from equipoise.config import load_run
from equipoise.kernels import Scoring
from equipoise.objectives import CLIP, CoCa, M3Mix
from equipoise.spaces import Sphere
from equipoise.targets.weighted import PAIR_WEIGHT
from equipoise.training.settings import Training
from equipoise.training.step import Step
from equipoise.types import Embeddings, UserError

COSTS, WORDS, WEIGHTS = [3.0, 10.0, 0.5, 4.0], [2.0, 5.0, 1.0, 4.0], [1.0, 0.0, 0.5, 0.25]


def embeddings(space: Sphere) -> Embeddings:
    make = torch.Generator().manual_seed(0)
    image, text = (space.project(torch.randn(4, 8, generator=make, dtype=torch.float64)) for _ in range(2))
    further = {"caption_cost": torch.tensor(COSTS).double(), "caption_words": torch.tensor(WORDS).double()}
    return Embeddings(image, text, further=further)


@pytest.mark.parametrize("weighted", [False, True])
def test_the_loss_is_the_weighted_sum_of_contrast_and_words(weighted):
    space, batch = Sphere(8), random_batch(4)
    if weighted:
        batch.side[PAIR_WEIGHT] = torch.tensor(WEIGHTS).double()
    q = WEIGHTS if weighted else [1.0] * 4
    scoring = Scoring(space, torch.tensor(1.0).double())
    points = embeddings(space)
    found = CoCa(contrastive_weight=0.7, caption_weight=1.9).loss(points, batch, scoring)
    contrast = float(CLIP().loss(points, batch, scoring).total)
    caption = sum(w * c for w, c in zip(q, COSTS, strict=True)) / sum(w * n for w, n in zip(q, WORDS, strict=True))
    assert float(found.terms["caption"]) == pytest.approx(caption)
    assert float(found.total) == pytest.approx(0.7 * contrast + 1.9 * caption)


def test_the_weights_are_those_of_open_clip():
    assert (CoCa().contrastive_weight, CoCa().caption_weight) == (1.0, 2.0)


def test_mixups_stand_beside_it():
    space, batch, points = Sphere(8), random_batch(4), embeddings(Sphere(8))
    scoring = Scoring(space, torch.tensor(1.0).double())
    mixed = M3Mix(
        of=CoCa(), m2_weight=0.3, v_weight=0, l_weight=0, vl_weight=0, per_epoch=False, m2_scale_learned=False
    )
    found = mixed.loss(points, batch, scoring)
    plain = CoCa().loss(points, batch, scoring)
    assert float(found.total) == pytest.approx(float(plain.total) + 0.3 * float(found.terms["m2"]))
    assert set(found.terms) == {*plain.terms, "m2"}
    assert "caption" in mixed.heads


def test_points_without_costs_are_told_what_is_missing():
    points = Embeddings(*(embeddings(Sphere(8)).roles()[role] for role in ("image", "text")))
    with pytest.raises(UserError, match="caption_cost"):
        CoCa()(points, log_scale=1.0, space=Sphere(8))


@pytest.mark.parametrize("name", ["contrastive_weight", "caption_weight"])
@pytest.mark.parametrize("value", [-1.0, float("nan")])
def test_weights_below_zero_are_refused(name, value):
    with pytest.raises(UserError, match=name):
        CoCa(**{name: value})


@pytest.mark.parametrize("objective", [CoCa(decoder=DECODER), M3Mix(of=CoCa(decoder=DECODER), m2_weight=0.2)])
def test_micro_batches_with_cached_gradients_train_alike(objective):
    def trained(micro: int) -> torch.Tensor:
        model = small_coca(heads=objective.heads)
        step = Step(model, objective, Training(steps=3, batch_size=6, micro_batch=micro), torch.device("cpu"))
        for number in (1, 2):
            step(random_batch(6, number), number)
        return torch.cat([p.detach().flatten() for p in model.parameters()])

    torch.testing.assert_close(trained(2), trained(0), rtol=0, atol=1e-9)


def test_a_few_steps_teach_words():
    objective = CoCa(decoder=DECODER)
    model = small_coca(heads=objective.heads)
    step = Step(model, objective, Training(steps=40, batch_size=6, learning_rate=3e-3), torch.device("cpu"))
    losses = [float(step(random_batch(6), number).loss.terms["caption"]) for number in range(1, 41)]
    assert losses[-1] < losses[0] - 1


@pytest.mark.parametrize("name", ["coca-scenes", "coca-m2-scenes"])
def test_recipes_name_their_papers(name):
    run = load_run(name).run
    assert "caption" in run.objective.heads
    assert "yu2022coca" in run.image.cites
