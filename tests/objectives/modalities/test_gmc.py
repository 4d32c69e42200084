"""GMC, m²-Mix beside it and contrasts among modalities: loops in float64, gradients by finite differences."""

from __future__ import annotations

import math
import warnings

import pytest
import torch
from every_space import NAMES, space_named
from objectives.mix_by_hand import dot, mix
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from equipoise.config import load_run
from equipoise.forms import Sigmoid
from equipoise.kernels import Scoring
from equipoise.objectives import OBJECTIVES, ModalPairs
from equipoise.objectives.mixup.schedule import drawn_share
from equipoise.objectives.modalities import GMCLoss, contrast_pairs, drawn_modalities, gmc, gmc_mix, nt_xent, supervised
from equipoise.objectives.self_supervised import simclr
from equipoise.spaces import Sphere
from equipoise.types import Batch, Embeddings, Notice, StepInfo, UserError

NAMES_OF = ("text", "audio", "video")
LOG_SCALE = math.log(1 / 0.3)  # GMC's temperature


def points(n: int, dim: int, seed: int, space=None) -> torch.Tensor:
    drawn = torch.randn(n, dim, generator=torch.Generator().manual_seed(seed)).double()
    return (space or Sphere(dim)).project(drawn)


def some(n: int = 6, dim: int = 5, space=None) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    return points(n, dim, 9, space), {name: points(n, dim, seed, space) for seed, name in enumerate(NAMES_OF)}


def nt_xent_aloud(first, second, scale: float, similarity) -> float:
    """GMC's code in loops: each of 2N points against all others, oneself removed, the positive among them."""
    both, n = [*first, *second], len(first)
    total = 0.0
    for a in range(2 * n):
        positive = math.exp(scale * similarity(both[a], both[(a + n) % (2 * n)]))
        everyone = sum(math.exp(scale * similarity(both[a], both[c])) for c in range(2 * n) if c != a)
        total -= math.log(positive / everyone)
    return total / (2 * n)


def on_sphere(a, b) -> float:
    return dot(a.tolist(), b.tolist())


@pytest.mark.parametrize("name", NAMES)
def test_gmc_is_the_published_loss_in_every_space(name):
    space = space_named(name, 8)
    joint, codes = some(5, space.dim, space)
    found = gmc(joint, codes, Scoring(space, LOG_SCALE))

    def close(a, b) -> float:
        return float(space.similarity(a[None], b[None]))

    for m, code in codes.items():
        assert float(found.terms[f"gmc/{m}"]) == pytest.approx(nt_xent_aloud(joint, code, 1 / 0.3, close), abs=1e-11)
    assert float(found.total) == pytest.approx(sum(map(float, found.terms.values())), abs=1e-12)


@pytest.mark.parametrize("log_scale", [-3.0, LOG_SCALE, 4.6])
def test_no_scale_lets_a_point_see_itself(log_scale):
    joint, codes = some()
    expected = nt_xent_aloud(joint, codes["text"], math.exp(log_scale), on_sphere)
    for dtype, error in ((torch.float64, 1e-10), (torch.float32, 1e-4)):
        found = nt_xent(joint.to(dtype), codes["text"].to(dtype), Scoring(Sphere(5), log_scale))
        assert float(found) == pytest.approx(expected, abs=error, rel=error)


def test_on_the_sphere_it_is_the_loss_of_simclr():
    joint, codes = some(40, 6)
    found = nt_xent(joint, codes["audio"], Scoring(Sphere(6), LOG_SCALE))
    torch.testing.assert_close(found, simclr(joint, codes["audio"], 0.3), rtol=0, atol=1e-12)


def test_bfloat16_codes_stay_near():
    joint, codes = some()
    expected = nt_xent_aloud(joint, codes["text"], 1 / 0.3, on_sphere)
    found = nt_xent(joint.bfloat16(), codes["text"].bfloat16(), Scoring(Sphere(5), LOG_SCALE))
    assert float(found) == pytest.approx(expected, rel=0.02)


def test_gmc_mix_per_anchor_read_aloud():
    joint, codes = some()
    mixed = [
        torch.tensor(mix(0.3, a.tolist(), b.tolist()), dtype=torch.float64)
        for a, b in zip(codes["text"], codes["audio"], strict=True)
    ]
    expected = nt_xent_aloud(joint, mixed, 1 / 0.3, on_sphere)
    found = gmc_mix(joint, codes["text"], codes["audio"], 0.3, Scoring(Sphere(5), LOG_SCALE))
    assert float(found) == pytest.approx(expected, abs=1e-11)


@pytest.mark.parametrize("impl", ["eager", "tiled"])
def test_gmc_mix_literal_read_aloud(impl):
    joint, codes = some()
    mixed = [mix(0.3, a.tolist(), b.tolist()) for a, b in zip(codes["text"], codes["audio"], strict=True)]
    scores = [[math.exp(dot(m, z.tolist()) / 0.3) for z in joint] for m in mixed]
    same = sum(scores[i][i] for i in range(6))
    others = sum(scores[i][j] for i in range(6) for j in range(6) if i != j)
    scoring = Scoring(Sphere(5), LOG_SCALE)
    found = gmc_mix(joint, codes["text"], codes["audio"], 0.3, scoring, reading="literal", impl=impl)
    assert float(found) == pytest.approx(-math.log(same / others), abs=1e-11)


def test_only_the_literal_reading_falls_for_ever():
    """Codes that are aligned and opposite in pairs: a larger scale lowers the literal reading without end."""
    joint = torch.eye(4).double()
    losses = {
        reading: [
            float(gmc_mix(joint, joint, joint, 0.5, Scoring(Sphere(4), math.log(scale)), reading=reading))
            for scale in (10.0, 100.0, 900.0)
        ]
        for reading in ("literal", "per_anchor")
    }
    assert losses["literal"][2] < losses["literal"][1] < losses["literal"][0] < 0
    assert losses["literal"][2] < -800
    assert min(losses["per_anchor"]) >= 0


def test_the_literal_reading_is_warned_of_and_unknown_ones_are_refused():
    with pytest.warns(Notice, match="unbounded"):
        GMCLoss(m2_weight=0.2, reading="literal")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        GMCLoss(m2_weight=0.2)
    with pytest.raises(UserError, match="reading must be one of"):
        GMCLoss(reading="other")


@pytest.mark.filterwarnings("ignore:reading")
@pytest.mark.parametrize("reading", ["per_anchor", "literal"])
def test_gradients_are_those_of_finite_differences(reading):
    joint, codes = some(4, 3)
    loss, moment = GMCLoss(m2_weight=0.2, reading=reading), StepInfo(seed=3, step=4, steps=9, epoch_steps=2)
    leaves = [x.requires_grad_() for x in (joint, *codes.values(), torch.tensor(1.2).double())]

    def of(z, text, audio, video, t):
        near = Sphere(3).project  # so that steps of finite differences stay on the sphere
        given = {"text": near(text), "audio": near(audio), "video": near(video)}
        return loss(near(z), given, Scoring(Sphere(3), t), moment).total

    assert torch.autograd.gradcheck(of, leaves)


@pytest.mark.parametrize("reading", ["per_anchor", "literal"])
def test_tiles_give_the_same_loss_and_gradient(reading):
    found = []
    for impl in ("eager", "tiled"):
        joint, codes = some(7)
        leaves = [joint, codes["text"], codes["audio"], torch.tensor(1.2).double()]
        scoring = Scoring(Sphere(5), leaves[-1].requires_grad_())
        for leaf in leaves[:-1]:
            leaf.requires_grad_()
        total = gmc_mix(*leaves[:-1], 0.3, scoring, reading=reading, impl=impl)
        total = total + nt_xent(joint, codes["text"], scoring, impl=impl)
        found.append([total, *torch.autograd.grad(total, leaves)])
    for eager, tiled in zip(*found, strict=True):
        torch.testing.assert_close(tiled, eager, rtol=0, atol=1e-12)


class Largest(TorchDispatchMode):
    """The most numbers that any tensor made meanwhile holds."""

    numbers = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        sizes = (leaf.numel() for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor))
        self.numbers = max([self.numbers, *sizes])
        return result


@pytest.mark.parametrize("reading", ["per_anchor", "literal"])
def test_memory_is_linear(reading):
    joint, first, second = (points(1100, 4, seed).float().requires_grad_() for seed in range(3))
    sizes = {}
    for impl in ("tiled", "eager"):
        with Largest() as seen:
            gmc_mix(joint, first, second, 0.3, Scoring(Sphere(4), 1.0), reading=reading, impl=impl).backward()
        sizes[impl] = seen.numbers
    assert sizes["tiled"] <= 1024 * 1024 < sizes["eager"]


def test_what_is_drawn_depends_on_the_step_alone():
    joint, codes = some()
    moment, loss = StepInfo(seed=1, step=5, steps=40, epoch_steps=4), GMCLoss(m2_weight=0.2)
    scoring = Scoring(Sphere(5), LOG_SCALE)
    found = loss(joint, codes, scoring, moment)
    first, second = drawn_modalities(moment, NAMES_OF)
    lam = drawn_share(moment, "m2", (2.0, 2.0))
    mixed = gmc_mix(joint, codes[first], codes[second], lam, scoring)
    torch.testing.assert_close(found.terms["m2"], mixed)
    torch.testing.assert_close(found.total, gmc(joint, codes, scoring).total + 0.2 * mixed)
    assert found.facts()["mix/share_m2"] == lam
    assert drawn_modalities(StepInfo(seed=1, step=8, steps=40, epoch_steps=4), NAMES_OF) == (first, second)
    epochs = [drawn_modalities(StepInfo(seed=1, step=s, steps=99, epoch_steps=1), NAMES_OF) for s in range(1, 90)]
    assert {frozenset(pair) for pair in epochs} == {
        frozenset(pair) for pair in (("text", "audio"), ("text", "video"), ("audio", "video"))
    }


def test_samples_that_lack_a_modality_are_left_out_of_its_term_alone():
    joint, codes = some()
    has = torch.tensor([True, False, True, True, False, True])
    scoring = Scoring(Sphere(5), LOG_SCALE)
    whole, found = gmc(joint, codes, scoring), gmc(joint, codes, scoring, present={"audio": has})
    assert float(found.terms["gmc/text"]) == float(whole.terms["gmc/text"])
    expected = nt_xent_aloud(joint[has], codes["audio"][has], 1 / 0.3, on_sphere)
    assert float(found.terms["gmc/audio"]) == pytest.approx(expected, abs=1e-11)


@pytest.mark.filterwarnings("ignore:reading")
@pytest.mark.parametrize("reading", ["per_anchor", "literal"])
def test_a_batch_without_a_modality_or_of_one_sample_costs_nothing_there(reading):
    joint, codes = some()
    leaves = [x.requires_grad_() for x in (joint, *codes.values())]
    nobody = {name: torch.zeros(6, dtype=torch.bool) for name in NAMES_OF}
    loss = GMCLoss(m2_weight=1.0, reading=reading)
    found = loss(joint, codes, Scoring(Sphere(5), 1.0), StepInfo(), nobody)
    assert float(found.total.detach()) == 0
    assert all(grad.eq(0).all() for grad in torch.autograd.grad(found.total, leaves))
    single = GMCLoss(m2_weight=1.0, reading=reading)(
        joint[:1], {name: code[:1] for name, code in codes.items()}, Scoring(Sphere(5), 1.0), StepInfo()
    )
    assert float(single.total.detach()) == pytest.approx(0, abs=1e-12)


def test_two_modalities_in_contrast_are_clip():
    image, text = points(6, 5, 1), points(6, 5, 2)
    scoring = Scoring(Sphere(5), 1.7)
    clip = OBJECTIVES["clip"]().loss(Embeddings(image, text), None, scoring)
    found = contrast_pairs({"image": image, "text": text}, scoring)
    assert torch.equal(found.total, clip.total)
    assert list(found.terms) == ["image-text"]


def test_pairs_of_modalities_are_contrasted_each_by_clip():
    _, codes = some()
    scoring = Scoring(Sphere(5), 1.7)
    clip = OBJECTIVES["clip"]()

    def each(a, b) -> float:
        return float(clip.loss(Embeddings(codes[a], codes[b]), None, scoring).total)

    pairs = (("text", "audio"), ("text", "video"), ("audio", "video"))
    found = contrast_pairs(codes, scoring)
    assert {name: float(x) for name, x in found.terms.items()} == {"-".join(p): each(*p) for p in pairs}
    assert float(found.total) == pytest.approx(sum(each(*p) for p in pairs) / 3, abs=1e-12)
    one = contrast_pairs(codes, scoring, pairs=[("video", "text")])
    assert float(one.total) == each("video", "text")
    has = {"audio": torch.tensor([True, False] * 3), "video": torch.tensor([True] * 4 + [False] * 2)}
    partly = contrast_pairs(codes, scoring, pairs=[("audio", "video")], present=has)
    both = [0, 2]
    expected = clip.loss(Embeddings(codes["audio"][both], codes["video"][both]), None, scoring).total
    assert float(partly.total) == pytest.approx(float(expected), abs=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_pairs_are_contrasted_in_every_space_by_loops(name):
    space = space_named(name, 8)
    _, codes = some(5, space.dim, space)
    expected = {}
    for a, b in (("text", "audio"), ("text", "video"), ("audio", "video")):
        close = [[2.0 * float(space.similarity(x[None], y[None])) for y in codes[b]] for x in codes[a]]
        total = 0.0
        for i in range(5):
            of_row, of_column = (sum(map(math.exp, one)) for one in (close[i], [row[i] for row in close]))
            total += math.log(of_row) + math.log(of_column) - 2 * close[i][i]
        expected[f"{a}-{b}"] = total / 10
    for impl in ("eager", "tiled"):
        found = contrast_pairs(codes, Scoring(space, math.log(2.0)), impl=impl)
        assert {pair: float(x) for pair, x in found.terms.items()} == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("of", ["gmc", "pairs"])
def test_contrasts_among_modalities_take_linear_memory(of):
    sizes = {}
    for impl in ("tiled", "eager"):
        joint, *each = (points(1100, 4, seed).float().requires_grad_() for seed in range(4))
        codes, scoring = dict(zip(NAMES_OF, each, strict=True)), Scoring(Sphere(4), 1.0)
        with Largest() as seen:
            loss = gmc(joint, codes, scoring, impl=impl) if of == "gmc" else contrast_pairs(codes, scoring, impl=impl)
            loss.total.backward()
        sizes[impl] = seen.numbers
    assert sizes["tiled"] <= 1024 * 1024 < sizes["eager"]


def test_an_objective_of_named_pairs_contrasts_these_alone():
    _, codes = some()
    side = {f"has_modality/{name}": torch.ones(6, dtype=torch.bool) for name in codes}
    batch = Batch(torch.zeros(6, 0), torch.zeros(6, 0).long(), torch.zeros(6, 0).bool(), torch.arange(6), side)
    objective = ModalPairs(pairs=("text+audio", "video+text"))
    found = objective.loss(Embeddings.of(codes), batch, Scoring(Sphere(5), 1.0))
    expected = contrast_pairs(codes, Scoring(Sphere(5), 1.0), pairs=[("text", "audio"), ("video", "text")])
    assert list(found.terms) == ["text-audio", "video-text"]
    assert torch.equal(found.total, expected.total)
    for pair in ("text", "text+text", "text+audio+video", "text-audio"):
        with pytest.raises(UserError, match="join two different modalities by"):
            ModalPairs(pairs=(pair,))
    with pytest.raises(UserError, match=r'objective\.pairs names "smell", but the model reads text, audio, video'):
        load_run("gmc-world", ["objective.name=modal_pairs", 'objective.pairs=["text+smell"]'])


def test_pairs_take_any_form():
    _, codes = some()
    form = Sigmoid(bias=-2.0)
    found = contrast_pairs(codes, Scoring(Sphere(5), 1.0), pairs=[("text", "audio")], form=form)
    clip = OBJECTIVES["clip"](form=form).loss(Embeddings(codes["text"], codes["audio"]), None, Scoring(Sphere(5), 1.0))
    assert torch.equal(found.total, clip.total)


def test_supervised_losses_read_aloud():
    predicted, labels = torch.tensor([[0.5], [-1.0], [2.0]]), torch.tensor([1.0, -3.0, 2.5])
    assert float(supervised(predicted, labels, "l1")) == pytest.approx((0.5 + 2.0 + 0.5) / 3)
    logits = torch.tensor([[1.0, 2.0], [0.5, -0.5], [0.0, 3.0]]).double()
    classes = [1, 0, 0]
    rows = zip(logits.tolist(), classes, strict=True)
    expected = -sum(math.log(math.exp(row[c]) / sum(map(math.exp, row))) for row, c in rows) / 3
    assert float(supervised(logits, torch.tensor(classes), "cross_entropy")) == pytest.approx(expected, abs=1e-12)
    leaf = logits.clone().requires_grad_()
    assert torch.autograd.gradcheck(lambda x: supervised(x, torch.tensor(classes), "cross_entropy"), leaf)
    numbers = predicted.double().requires_grad_()
    assert torch.autograd.gradcheck(lambda x: supervised(x, labels.double(), "l1"), numbers)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda z, c, s: gmc(z[:3], c, s), r"one shape \[N, d\]"),
        (lambda z, c, s: contrast_pairs({"text": z}, s), "at least two kinds"),
        (lambda z, c, s: contrast_pairs(c, s, pairs=[("text", "smell")]), "no modality 'smell'"),
        (lambda z, c, s: contrast_pairs(c, s, pairs=[("text", "text")]), "two different modalities"),
        (lambda z, c, s: drawn_modalities(StepInfo(), ["text"]), "mixes two modalities"),
        (lambda z, c, s: gmc_mix(z[:1], z[:1], z[:1], 0.5, s, reading="literal"), "at least two samples"),
        (lambda z, c, s: supervised(z[:, 0], z[:, 0], "l2"), "must be one of"),
        (lambda z, c, s: supervised(z, z[:, 0], "l1"), "one number per sample"),
        (lambda z, c, s: supervised(z, z[:, 0], "cross_entropy"), "whole numbers"),
        (lambda z, c, s: supervised(z, torch.full((6,), 5), "cross_entropy"), "classes 0 to 4"),
    ],
)
def test_impossible_codes_are_refused(call, sentence):
    joint, codes = some()
    with pytest.raises(UserError, match=sentence):
        call(joint, codes, Scoring(Sphere(5), 1.0))
