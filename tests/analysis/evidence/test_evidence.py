"""Evidence of the field against its formulas, read aloud in float64, of a small judge of features."""

from __future__ import annotations

import math
from copy import deepcopy

import numpy as np
import pytest
import torch

from equipoise.analysis.evidence import EVIDENCE, JudgedPairs
from equipoise.analysis.evidence.crcl import refined_label
from equipoise.analysis.evidence.gsc import structure_agreement
from equipoise.analysis.evidence.npc import nearest, npc_weights
from equipoise.analysis.evidence.osa import noise_points, orthogonal_weights
from equipoise.analysis.evidence.random_batches import random_batches
from equipoise.analysis.gaussian_mixture import lower_posterior
from equipoise.config import load_run
from equipoise.data.tokenizer import NoTokenizer
from equipoise.spaces import Sphere
from equipoise.workflows.audit.points import points_of
from equipoise.workflows.load import build_model

IMAGES, TEXTS, WIDTH, RATE = 100, 2, 6, 0.05


@pytest.fixture(scope="module")
def judged(tmp_path_factory) -> JudgedPairs:
    """100 images of two texts each, of which the last forty have texts of others; the judge is the truth, nearly."""
    file = tmp_path_factory.mktemp("evidence") / "f.npz"
    rng = np.random.default_rng(0)
    shared = rng.normal(size=(IMAGES, 1, WIDTH))
    texts = shared + rng.normal(size=(IMAGES, TEXTS, WIDTH)) / 5
    texts[60:] = np.roll(texts[60:], 1, axis=0)
    np.savez(file, image=shared[:, 0].astype(np.float32), text=texts.astype(np.float32))
    settings = {
        **dict.fromkeys(("data.train", "data.validation", "data.test"), f'"{file}"'),
        **dict.fromkeys(("image.width", "text.width", "space.dim"), WIDTH),
        **dict.fromkeys(("image.dropout", "text.dropout"), 0.0),
        "temperature.init": 1.5,
    }
    run = load_run("features", [f"{key}={value}" for key, value in settings.items()]).run
    torch.manual_seed(0)
    model = build_model(run, NoTokenizer()).eval()
    with torch.no_grad():
        for readout in (model.image_readout, model.text_readout):
            for parameter in readout.parameters():
                parameter.copy_(torch.eye(WIDTH) if parameter.ndim == 2 else torch.zeros_like(parameter))
    source = run.training_pairs()
    return JudgedPairs(model, source, points_of(model, source), seed=3, learning_rate=RATE)


def right(judged: JudgedPairs) -> np.ndarray:
    return judged.points.image_of_text.numpy() < 60


def pair_points(judged: JudgedPairs) -> tuple[torch.Tensor, torch.Tensor]:
    return judged.points.images[judged.points.image_of_text].double(), judged.points.texts.double()


def probabilities(judged: JudgedPairs) -> list[tuple[float, float]]:
    """p→ and p← of each text in its batch of up to 128."""
    u, v = pair_points(judged)
    found: dict[int, tuple[float, float]] = {}
    for batch in random_batches(IMAGES * TEXTS, 128, judged.seed):
        rows = batch.tolist()
        weigh = {(i, j): math.exp(judged.scale * float(u[i] @ v[j])) for i in rows for j in rows}
        for i in rows:
            across, down = sum(weigh[i, j] for j in rows), sum(weigh[j, i] for j in rows)
            found[i] = (weigh[i, i] / across, weigh[i, i] / down)
    return [found[i] for i in range(IMAGES * TEXTS)]


def test_every_pair_is_in_one_batch_and_none_is_too_small():
    parts = random_batches(257, 128, seed=0)
    assert sorted(torch.cat(parts).tolist()) == list(range(257))
    assert [len(part) for part in parts] == [86, 86, 85]


@pytest.mark.parametrize("name", EVIDENCE)
def test_all_are_finite_and_the_same_again(judged, name):
    before = {key: value.clone() for key, value in judged.model.state_dict().items()}
    one, two = (EVIDENCE[name](judged) for _ in range(2))
    assert one.shape == (IMAGES * TEXTS,)
    assert torch.isfinite(one).all()
    assert torch.equal(one, two)
    assert all(torch.equal(value, judged.model.state_dict()[key]) for key, value in before.items())


@pytest.mark.parametrize("name", ["score", "gsc", "crcl", "co_teaching", "npc"])
def test_right_pairs_have_more_of_it_than_wrong_ones(judged, name):
    found, truth = EVIDENCE[name](judged).numpy(), right(judged)
    assert found[truth].mean() > found[~truth].mean()


def test_the_score_is_the_cosine(judged):
    u, v = pair_points(judged)
    expected = [float(u[i] @ v[i] / u[i].norm() / v[i].norm()) for i in range(len(v))]
    assert EVIDENCE["score"](judged).tolist() == pytest.approx(expected, abs=1e-6)


def test_small_loss_is_the_geometric_mean_of_both_ways(judged):
    expected = [math.sqrt(across * down) for across, down in probabilities(judged)]
    assert EVIDENCE["co_teaching"](judged).tolist() == pytest.approx(expected, rel=1e-5)


def test_the_refined_label_is_the_mean_of_both_ways_and_zero_below_a_tenth(judged):
    means = [(across + down) / 2 for across, down in probabilities(judged)]
    expected = [mean if mean >= 0.1 else 0.0 for mean in means]
    assert EVIDENCE["crcl"](judged).tolist() == pytest.approx(expected, rel=1e-5)
    assert refined_label(torch.tensor([0.05, 0.1, 0.7])).tolist() == pytest.approx([0.0, 0.1, 0.7])


def test_agreement_is_that_of_neighbours_in_both_modalities(judged):
    u, v = pair_points(judged)
    batches = random_batches(IMAGES * TEXTS, 128, judged.seed)
    expected = {}
    for batch in batches:
        rows = batch.tolist()
        for i in rows:
            sigmoid = [[1 / (1 + math.exp(-float(side[i] @ side[j]))) for j in rows] for side in (u, v)]
            dot = sum(a * b for a, b in zip(*sigmoid, strict=True))
            expected[i] = dot / math.sqrt(sum(a * a for a in sigmoid[0]) * sum(b * b for b in sigmoid[1]))
    agreement = structure_agreement(judged.points, judged.model.space.similarity, batches)
    in_order = np.array([expected[i] for i in range(IMAGES * TEXTS)])
    assert agreement.tolist() == pytest.approx(in_order.tolist(), abs=1e-6)
    means = np.array([sum(both) / 2 for both in probabilities(judged)])
    both = np.minimum(means, lower_posterior(-in_order))
    assert EVIDENCE["gsc"](judged).tolist() == pytest.approx(both.tolist(), abs=1e-4)


def test_the_orthogonal_weight_of_a_batch():
    similarity = torch.tensor([0.1, 0.2, 0.35, 0.6, -0.4, 0.0], dtype=torch.float64)
    batches = [torch.tensor([0, 1, 2, 3]), torch.tensor([4, 5])]
    x = [0.0, 0.1 / 0.5, 0.25 / 0.5, 1.0, 0.0, 0.0]
    expected = [one * one * (1 - one) * (1 + one) for one in x]
    assert orthogonal_weights(similarity, 0.1, batches).tolist() == pytest.approx(expected, abs=1e-12)


def test_the_anchor_is_where_noise_lies(judged):
    images, texts = noise_points(judged.model, judged.source, judged.seed)
    anchor = float(judged.model.space.similarity(images, texts).mean())
    assert abs(anchor) < 0.2  # these features lie around 0, so that unrelated ones are orthogonal
    found = EVIDENCE["osa"](judged)
    score = EVIDENCE["score"](judged)
    assert (found[score <= anchor] == 0).all()
    assert 0 < float(found.max()) <= 0.25 + 1e-12


def test_noise_of_pictures_and_words(scenes, tiny_settings):
    from equipoise.data.tokenizer import CaptionTokenizer

    run = load_run("demo", tiny_settings).run
    tokens = CaptionTokenizer.from_config(
        run.caption_tokens(), (text for i in range(9) for text in scenes.pair(i).captions)
    )
    images, texts = noise_points(build_model(run, tokens).eval(), scenes, seed=0)
    assert len(images) == len(texts) == 256
    assert len(texts.unique(dim=0)) > 200


def test_the_nearest_of_the_bank_is_found_across_tiles():
    make = torch.Generator().manual_seed(0)
    points, bank = (torch.nn.functional.normalize(torch.randn(n, 4, generator=make), dim=1) for n in (10, 8))
    expected = [max(range(8), key=lambda j: float(points[i] @ bank[j])) for i in range(10)]
    assert nearest(points, bank, Sphere(4), tile=3).tolist() == expected


def test_what_helped_counts_in_full_and_what_hurt_by_its_tanh():
    before, after = torch.tensor([[1.0, 1.0], [1.0, 0.5]]), torch.tensor([[0.5, 2.0], [1.0, 1.0]])
    assert npc_weights(before, after).tolist() == pytest.approx([1.0, math.tanh(0.5)])


def test_the_weight_of_npc_is_that_of_a_step_by_hand(judged):
    """One batch of 40 pairs, in float64: losses, bank, neighbours, a step on two matrices and t, losses again."""
    small = small_part(judged)
    u, v = pair_points(small)
    features = [
        small.source.image_features(range(20))[0].repeat_interleave(2, 0),
        small.source.text_features(range(20))[0],
    ]
    order = random_batches(40, 128, small.seed)[0]
    model = deepcopy(small.model).double()
    normal = [torch.nn.functional.layer_norm(one.double(), (WIDTH,)) for one in features]
    names = [name for name, _ in model.named_parameters()]
    weights = dict(model.named_parameters())

    def losses(rows):
        sides = [
            points_by_hand(model, side[rows], tower) for side, tower in zip(normal, ("image", "text"), strict=True)
        ]
        logits = model.logit_scale.exp() * sides[0] @ sides[1].T
        return -(logits.log_softmax(1).diagonal() + logits.log_softmax(0).diagonal()) / 2

    ell = losses(order).detach()[order.argsort()]
    bank = np.flatnonzero(lower_posterior(ell.numpy()) > 0.9).tolist()
    near = [[max(bank, key=lambda j: float(side[i] @ side[j])) for i in range(40)] for side in (u, v)]
    in_order = [[one[i] for i in order.tolist()] for one in near]
    before = [losses(torch.tensor(one)).detach() for one in in_order]
    grads = torch.autograd.grad(losses(order).mean(), [weights[name] for name in names], allow_unused=True)
    with torch.no_grad():
        for name, grad in zip(names, grads, strict=True):
            if grad is not None:
                weights[name] -= RATE * grad / (grad.abs() + 1e-8)
    after = [losses(torch.tensor(one)).detach() for one in in_order]
    ratio = sum(a / b for a, b in zip(before, after, strict=True)) / 2
    expected = [float(one) if one >= 1 else math.tanh(float(one)) for one in ratio]
    expected = [min(one, 1.0) for one in expected]
    assert 0 < len(bank) < 40
    assert min(expected) < 0.77
    assert EVIDENCE["npc"](small)[order].tolist() == pytest.approx(expected, abs=1e-3)


def points_by_hand(model, features: torch.Tensor, tower: str) -> torch.Tensor:
    readout = getattr(model, f"{tower}_readout")
    matrices = [parameter for parameter in readout.parameters() if parameter.ndim == 2]
    biases = [parameter for parameter in readout.parameters() if parameter.ndim == 1]
    assert len(matrices) == 1
    vectors = features @ matrices[0].T
    for bias in biases:
        vectors = vectors + bias
    return vectors / vectors.norm(dim=1, keepdim=True)


def small_part(judged: JudgedPairs) -> JudgedPairs:
    """Images 50 to 69: ten with their own texts, ten with those of others."""
    from equipoise.data.remap import subset

    source = subset(judged.source, range(50, 70))
    return JudgedPairs(judged.model, source, points_of(judged.model, source), judged.seed, RATE)
