"""Objectives whose pairs have weights, against their formulas read aloud; what looks at one modality has none."""

from __future__ import annotations

import math
from dataclasses import replace

import mix_by_hand as by_hand
import pytest
import torch
from small_model import OF_MODALITIES, objective_named, random_batch, small_model
from softclip_by_hand import softclip
from test_declip import PAIRS, everything
from test_declip import SPACE as FIVE
from torch import Tensor

from equipoise.data.source import IMAGE_MIXED
from equipoise.kernels import Scoring, contrast
from equipoise.objectives import CLIP, FILIP, OBJECTIVES, SLIP, DeCLIP, IMix, M3Mix, Objective, SoftCLIP, UnMix
from equipoise.objectives.mixup.m2mix import READINGS, m2mix
from equipoise.objectives.mixup.schedule import drawn_share
from equipoise.objectives.mixup.unimodal import v_mix, vl_mix
from equipoise.spaces import Sphere, TokenSets
from equipoise.targets import GUIDES
from equipoise.targets.weighted import PAIR_WEIGHT
from equipoise.training.settings import Training
from equipoise.training.step import Step
from equipoise.types import Batch, Embeddings

SPACE, T, LAM = Sphere(6), 1.2, 0.3
WEIGHTS = [0.9, 0.0, 0.4, 1.0, 0.25, 0.6]
IMPLS = pytest.mark.parametrize("impl", ["eager", "tiled"])


def tensor(values: list[float]) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def points(n: int = 6, roles: int = 4, seed: int = 0) -> list[Tensor]:
    make = torch.Generator().manual_seed(seed)
    return [SPACE.project(torch.randn(n, 6, generator=make, dtype=torch.float64)) for _ in range(roles)]


def weighted_batch(weights: list[float] = WEIGHTS, seed: int = 1) -> Batch:
    batch = random_batch(len(weights), seed)
    return replace(batch, side={**batch.side, PAIR_WEIGHT: tensor(weights)})


def ranked(images: Tensor, texts: Tensor) -> float:
    """-log softmax of each image's own text, by weight."""
    total = 0.0
    for i in range(len(images)):
        exps = [math.exp(math.exp(T) * float(images[i] @ text)) for text in texts]
        total -= WEIGHTS[i] * math.log(exps[i] / sum(exps))
    return total / sum(WEIGHTS)


@IMPLS
def test_declip_weighs_what_depends_on_the_pairing(impl):
    embeddings, _ = everything()
    roles, batch = embeddings.roles(), weighted_batch()
    plain = DeCLIP(impl=impl)(embeddings, random_batch(6), log_scale=T, space=FIVE).terms
    found = DeCLIP(impl=impl)(embeddings, batch, log_scale=T, space=FIVE).terms
    clip = sum(ranked(roles[i], roles[t]) + ranked(roles[t], roles[i]) for i, t in PAIRS) / 8
    nearest = sum(ranked(roles[i], roles[f"{t}_nearest"]) for i, t in PAIRS) / 4
    assert float(found["contrastive"]) == pytest.approx(clip, abs=1e-12)
    assert float(found["nearest"]) == pytest.approx(nearest, abs=1e-12)
    assert found["simsiam"] == plain["simsiam"]  # of one modality
    assert found["words"] == plain["words"]


def test_slip_weighs_pairs_and_not_views():
    embeddings, _ = everything()
    plain = SLIP()(embeddings, random_batch(6), log_scale=T, space=FIVE).terms
    found = SLIP()(embeddings, weighted_batch(), log_scale=T, space=FIVE).terms
    image, text = embeddings.image, embeddings.text
    assert float(found["contrastive"]) == pytest.approx((ranked(image, text) + ranked(text, image)) / 2, abs=1e-12)
    assert found["simclr"] == plain["simclr"]


@IMPLS
@pytest.mark.parametrize("kind", ["kl", "symmetric_kl", "js"])
def test_softclip_weighs_all_its_terms(kind, impl):
    u, v, r, a = points()
    found = SoftCLIP(divergence=kind, impl=impl)(Embeddings(u, v, r, a), weighted_batch(), log_scale=T, space=SPACE)
    expected = softclip(u, v, r, a, scale=math.exp(T), beta=0.3, kind=kind, weights=WEIGHTS)
    assert {name: float(value) for name, value in found.terms.items()} == pytest.approx(expected, abs=1e-12)


def test_softclip_weighs_the_losses_of_both_guides():
    u, v, r, a = points()
    objective = SoftCLIP(gamma=0.4, relation_weight=0.0, clip_weight=0.0)
    found = objective(Embeddings(u, v, r, a), weighted_batch(), log_scale=T, space=SPACE)
    parts = [
        softclip(u, v, *guides, scale=math.exp(T), beta=0.3, weights=WEIGHTS)["soft"] for guides in ((r, a), (u, v))
    ]
    assert float(found.total) == pytest.approx(0.4 * parts[0] + 0.6 * parts[1], abs=1e-12)


@IMPLS
def test_filip_weighs_rows_of_one_way_and_columns_of_the_other(impl):
    sets = TokenSets(2, 3)
    u, v = (torch.randn(6, 6, generator=torch.Generator().manual_seed(seed)).double() for seed in (1, 2))
    u, v = (sets.project(x) for x in (u, v))
    found = FILIP(impl=impl)(Embeddings(u, v), weighted_batch(), log_scale=T, space=sets)
    costs = []
    for way, dim in (("rows", 1), ("cols", 0)):
        logits = math.exp(T) * replace(sets, toward=way).similarity(u, v)
        costs.append(-(tensor(WEIGHTS) * logits.log_softmax(dim).diagonal()).sum() / sum(WEIGHTS))
    assert float(found.total) == pytest.approx(float(costs[0] + costs[1]) / 2, abs=1e-12)


@IMPLS
@pytest.mark.parametrize("n", [5, 6])
@pytest.mark.parametrize("original", [True, False])
def test_mixups_weigh_what_they_mix(original, n, impl):
    u, v = points(n, 2)
    weights, scoring = WEIGHTS[:n], Scoring(SPACE, T)
    given = {"weights": tensor(weights), "impl": impl}
    scale = math.exp(T)
    found = [m2mix(u, v, LAM, scoring, reading=reading, **given) for reading in READINGS]
    rest = {**given, "original_negatives": original}
    found += [v_mix(u, v, LAM, scoring, **rest), v_mix(v, u, LAM, scoring, **rest), vl_mix(u, v, LAM, scoring, **rest)]
    expected = [by_hand.m2(u, v, LAM, scale, reading, weights) for reading in READINGS]
    expected += [mix(u, v, LAM, scale, original, weights) for mix in (by_hand.v, by_hand.vocal, by_hand.vl)]
    assert [float(x) for x in found] == pytest.approx(expected, abs=1e-12)


def test_m3_hands_weights_to_every_term():
    u, v = points(roles=2)
    every = {"m2_weight": 0.4, "v_weight": 0.3, "l_weight": 0.2, "vl_weight": 0.1}
    objective = M3Mix(**every, m2_scale=0.0, m2_scale_learned=False)
    batch, scale = weighted_batch(), math.exp(T)
    found = objective(Embeddings(u, v), batch, log_scale=T, space=SPACE).terms
    lam = {term: objective.share(batch.moment, term) for term in ("m2", "v", "l", "vl")}
    expected = {
        "contrastive": by_hand.clip(u, v, scale, WEIGHTS),
        "m2": by_hand.m2(u, v, lam["m2"], scale, READINGS[0], WEIGHTS),
        "v": by_hand.v(u, v, lam["v"], scale, weights=WEIGHTS),
        "l": by_hand.vocal(u, v, lam["l"], scale, weights=WEIGHTS),
        "vl": by_hand.vl(u, v, lam["vl"], scale, weights=WEIGHTS),
    }
    assert {name: float(value) for name, value in found.items()} == pytest.approx(expected, abs=1e-12)


def test_mixed_pictures_weigh_each_text_by_its_own_pair():
    image, text, mixed = points(roles=3)
    batch, scale = weighted_batch(), math.exp(T)
    lam = drawn_share(batch.moment, "pixels", (1.0, 1.0))
    logits = (scale * mixed @ text.T).tolist()
    target = by_hand.of_columns(by_hand.shared(6, lam, 1 - lam), by_hand.masses(WEIGHTS, 6))
    expected = by_hand.both_ways(logits, target)
    alone = IMix()(Embeddings(mixed, text), batch, log_scale=T, space=SPACE)
    beside = UnMix()(Embeddings(image, text, further={IMAGE_MIXED: mixed}), batch, log_scale=T, space=SPACE)
    assert float(alone.total) == pytest.approx(expected, abs=1e-12)
    assert float(beside.terms["mixed"]) == pytest.approx(expected, abs=1e-12)
    assert float(beside.terms["contrastive"]) == pytest.approx(by_hand.clip(image, text, scale, WEIGHTS), abs=1e-12)


@IMPLS
@pytest.mark.parametrize("reading", READINGS)
def test_gradients_of_weighted_mixups_are_those_of_finite_differences(reading, impl, monkeypatch):
    monkeypatch.setattr(contrast, "__kwdefaults__", {**contrast.__kwdefaults__, "tile": 2})
    u, v = (x[:4].requires_grad_() for x in points(roles=2))
    given = {"weights": tensor(WEIGHTS[:4]), "impl": impl}

    def total(u: Tensor, v: Tensor) -> Tensor:
        scoring, image, text = Scoring(SPACE, 0.7), SPACE.project(u), SPACE.project(v)
        mixes = (v_mix, image, text), (v_mix, text, image), (vl_mix, image, text)
        uni = torch.stack([mix(rows, cols, LAM, scoring, **given) for mix, rows, cols in mixes]).sum()
        return uni + m2mix(image, text, LAM, scoring, reading=reading, **given)

    assert torch.autograd.gradcheck(total, (u, v), fast_mode=True)


WITH_PAIRS = sorted(name for name in OBJECTIVES.keys() - OF_MODALITIES if not name.startswith("few_shot"))


@pytest.mark.parametrize("name", OBJECTIVES)
def test_every_objective_of_captions_weighs_pairs(name):
    assert objective_named(name).weighs_pairs == (name in WITH_PAIRS)


def step_of(name: str, micro: int, batch: Batch, **changes) -> tuple[float, dict[str, Tensor]]:
    chosen: Objective = objective_named(name)
    if name == "filip":
        changes |= {"space": TokenSets(4, 8), "readout": "token_set"}
    model = small_model(heads=chosen.heads, **changes).train()
    torch.manual_seed(5)
    loss = Step(model, chosen, Training(micro_batch=micro), torch.device("cpu"))._backward(batch)
    return loss.total.item(), {name: p.grad for name, p in model.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("name", sorted({*WITH_PAIRS, "declip_without_norms"} - {"slip", "declip", "albef", "tcl"}))
def test_micro_batches_weigh_as_the_whole_does_and_equal_weights_change_nothing(name):
    twice = weighted_batch(WEIGHTS * 2)
    whole_loss, whole = step_of(name, 0, twice)
    loss, parts = step_of(name, 5, twice)
    assert loss == pytest.approx(whole_loss, abs=1e-12)
    for parameter, grad in whole.items():
        torch.testing.assert_close(parts[parameter], grad, rtol=0, atol=1e-12)
    if name == "crcl":  # there a weight is a label, how far a pair is trusted
        return
    plain, equal = (step_of(name, 0, batch)[0] for batch in (random_batch(12), weighted_batch([0.3] * 12)))
    assert equal == pytest.approx(plain, rel=1e-12)
    assert abs(whole_loss - plain) > 1e-6


def test_weights_of_an_objective_go_with_its_form_and_its_guide():
    assert CLIP(target=objective_named("momentum").target).weighs_pairs
    assert SoftCLIP(guide=GUIDES["image_text"]).weighs_pairs
