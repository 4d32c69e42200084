"""i-Mix and Un-Mix against the papers read aloud: pixels, targets, gradients, edges, and who mixes with whom."""

from __future__ import annotations

import math
from dataclasses import replace

import mix_by_hand as by_hand
import pytest
import torch
from every_space import NAMES, space_named
from small_model import objective_named, random_batch, small_model
from torch import Tensor

from equipoise.data.batches import Batches
from equipoise.data.preprocess import Preprocess
from equipoise.data.scenes import Scenes
from equipoise.data.source import IMAGE_MIXED, IMAGE_PARTNER
from equipoise.data.tokenizer import CaptionTokenizer
from equipoise.kernels import Scoring
from equipoise.objectives import IMix, SoftCLIP, UnMix
from equipoise.objectives.mixup.pixels import mixed_loss
from equipoise.objectives.mixup.schedule import drawn_share
from equipoise.spaces import Sphere
from equipoise.targets import GUIDES
from equipoise.training.settings import Training
from equipoise.training.step import Step
from equipoise.types import Batch, Embeddings, UserError

SPACE, T = Sphere(6), math.log(1 / 0.05)


def points(n: int, seed: int = 0, dim: int = 6) -> list[Tensor]:
    make = torch.Generator().manual_seed(seed)
    return [SPACE.project(torch.randn(n, dim, generator=make).double()) for _ in range(3)]


def unmix_aloud(mixed: Tensor, text: Tensor, lam: float) -> float:
    """The authors' sum of two losses: of the mixtures in their order, and of the mixtures read backwards."""
    return lam * by_hand.clip(mixed, text, math.exp(T)) + (1 - lam) * by_hand.clip(mixed.flip(0), text, math.exp(T))


@pytest.mark.parametrize("impl", ["eager", "tiled"])
@pytest.mark.parametrize("n", [1, 2, 5, 6])
@pytest.mark.parametrize("lam", [0.0, 0.03, 0.5, 0.8, 1.0])
def test_the_loss_of_mixed_pictures_read_aloud(lam, n, impl):
    mixed, text, _ = points(n)
    logits = [[math.exp(T) * by_hand.dot(a, b) for b in text.tolist()] for a in mixed.tolist()]
    target = [[lam * (i == j) + (1 - lam) * (i + j == n - 1) for j in range(n)] for i in range(n)]
    found = float(mixed_loss(mixed, text, lam, Scoring(SPACE, T), impl=impl))
    assert found == pytest.approx(by_hand.both_ways(logits, target), abs=1e-10)
    assert found == pytest.approx(unmix_aloud(mixed, text, lam), abs=1e-10)


@pytest.mark.parametrize("name", NAMES)
def test_gradients_in_every_space(name):
    space = space_named(name, 8)
    make = torch.Generator().manual_seed(3)
    u, v = (torch.randn(4, 8, generator=make).double().requires_grad_() for _ in range(2))
    t = torch.tensor(1.2).double().requires_grad_()

    def loss(u: Tensor, v: Tensor, t: Tensor) -> Tensor:
        return mixed_loss(space.project(u), space.project(v), 0.3, Scoring(space, t), impl="eager")

    assert torch.autograd.gradcheck(loss, (u, v, t))


def test_pictures_are_mixed_pixel_by_pixel():
    batch, objective = random_batch(5), IMix(alpha=(0.4, 2.0))
    lam = drawn_share(batch.moment, "pixels", objective.alpha)
    assert 0 < lam < 1
    seen = objective.prepared(batch)
    for i in range(5):
        expected = lam * batch.images[i] + (1 - lam) * batch.images[4 - i]
        torch.testing.assert_close(seen.images[i], expected, rtol=0, atol=1e-12)
    beside = UnMix(alpha=(0.4, 2.0)).prepared(batch)
    assert torch.equal(beside.images, batch.images)
    assert torch.equal(beside.side[IMAGE_MIXED], seen.images)
    torch.testing.assert_close(seen.images[2], batch.images[2], rtol=0, atol=1e-12)  # its own partner


def test_unmix_is_imix_beside_an_objective():
    image, text, mixed = points(5)
    batch = random_batch(5)
    found = UnMix(mix_weight=0.7)(
        Embeddings(image=image, text=text, further={IMAGE_MIXED: mixed}), batch, log_scale=T, space=SPACE
    )
    alone = IMix()(Embeddings(image=mixed, text=text), batch, log_scale=T, space=SPACE)
    lam = alone.facts()["mix/share_pixels"]
    assert float(alone.total) == pytest.approx(unmix_aloud(mixed, text, lam), abs=1e-10)
    assert float(found.terms["contrastive"]) == pytest.approx(by_hand.clip(image, text, math.exp(T)), abs=1e-10)
    assert float(found.terms["mixed"]) == float(alone.total)
    assert float(found.total) == pytest.approx(float(found.terms["contrastive"] + 0.7 * alone.total), abs=1e-12)
    assert found.facts() == {"mix/share_pixels": lam}


def test_another_objective_may_stand_beside_the_mixtures():
    base = SoftCLIP(guide=GUIDES["image_text"])
    objective = UnMix(of=base)
    image, text, mixed = points(4)
    embeddings = Embeddings(image=image, text=text, further={IMAGE_MIXED: mixed})
    found = objective(embeddings, random_batch(4), log_scale=T, space=SPACE)
    assert set(found.terms) == {*base(embeddings, log_scale=T, space=SPACE).terms, "mixed"}
    assert UnMix(of=objective_named("declip")).views == ("image_view2", "text_view2", "masked_words", IMAGE_PARTNER)


def test_a_share_of_one_is_clip():
    image, text, _ = points(5)
    found = float(mixed_loss(image, text, 1.0, Scoring(SPACE, T), impl="eager"))
    assert found == pytest.approx(by_hand.clip(image, text, math.exp(T)), abs=1e-10)


@pytest.mark.parametrize("objective", ["imix", "unmix"])
def test_the_towers_see_the_mixtures(objective):
    """Loss and gradients of a step are those of the model on pictures mixed by hand."""
    chosen, batch = objective_named(objective), random_batch(6)
    model = small_model().train()
    lam = drawn_share(batch.moment, "pixels", (1.0, 1.0))
    mixed = model.image_points(lam * batch.images + (1 - lam) * batch.images.flip(0))
    text, image = model.text_points(batch), model.image_points(batch.images)
    scale = model.log_scale
    expected = mixed_loss(mixed, text, lam, Scoring(model.space, scale), impl="eager")
    if objective == "unmix":
        expected = expected + mixed_loss(image, text, 1.0, Scoring(model.space, scale), impl="eager")
    expected.backward()
    by_hand_grads = {name: p.grad.clone() for name, p in model.named_parameters()}
    model.zero_grad()
    for micro in (0, 4):
        loss = Step(model, chosen, Training(micro_batch=micro), torch.device("cpu"))._backward(batch)
        assert loss.total.item() == pytest.approx(expected.item(), abs=1e-12)
        for name, parameter in model.named_parameters():
            torch.testing.assert_close(parameter.grad, by_hand_grads[name], rtol=0, atol=1e-12)
        model.zero_grad()


def test_the_partner_is_the_picture_at_the_mirrored_place_whoever_makes_the_batch():
    source = Scenes.Config(train_size=24, validation_size=1, test_size=1, cache=False).build("train")
    tokens = CaptionTokenizer.train(["a red fish", "a blue star"], CaptionTokenizer.Config(vocabulary=600, context=12))
    made = lambda **share: Batches(  # noqa: E731
        source, tokens, Preprocess(size=16, crop_scale=(0.4, 1.0)), batch_size=9, seed=5, views=IMix().views, **share
    ).batch(3)
    whole = made()
    assert torch.equal(whole.side[IMAGE_PARTNER], whole.images.flip(0))
    for part in range(3):
        mine = made(share=(part, 3))
        rows = slice(3 * part, 3 * part + 3)
        torch.testing.assert_close(mine.side[IMAGE_PARTNER], whole.images.flip(0)[rows], rtol=0, atol=1e-5)


def test_bad_settings_and_missing_partners_are_refused_in_a_sentence():
    for bad in ((0.0, 1.0), (1.0, -1.0), (1.0, math.inf)):
        with pytest.raises(UserError, match="alpha must be two numbers above 0"):
            IMix(alpha=bad)
        with pytest.raises(UserError, match="alpha must be two numbers above 0"):
            UnMix(alpha=bad)
    with pytest.raises(UserError, match="mix_weight must be above 0"):
        UnMix(mix_weight=0.0)
    batch = random_batch(3)
    bare = Batch(batch.images, batch.tokens, batch.mask, batch.index)
    with pytest.raises(UserError, match="mixed with image_partner"):
        IMix().prepared(bare)
    with pytest.raises(UserError, match="the objective looks at image_mixed"):
        small_model()(replace(batch, side={}), UnMix().needs)
