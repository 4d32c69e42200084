"""The mixups against the paper read aloud, their gradients, their edges, their schedules."""

from __future__ import annotations

import math
import statistics

import mix_by_hand as by_hand
import pytest
import torch
from every_space import NAMES, space_named
from torch import Tensor

import equipoise as eq
from equipoise.kernels import Scoring, contrast
from equipoise.objectives import CLIP, OBJECTIVES, M3Mix, SoftCLIP
from equipoise.objectives.mixup.m2mix import READINGS, halves, m2mix, mixed_above
from equipoise.objectives.mixup.schedule import alpha_at, drawn_share, weight_at
from equipoise.objectives.mixup.unimodal import v_mix, vl_mix
from equipoise.spaces import Space, TokenSets
from equipoise.targets import GUIDES, Mirrored
from equipoise.types import Batch, Embeddings, StepInfo, UserError

SPACE = eq.Sphere(6)
T, T2 = math.log(1 / 0.05), math.log(1 / 0.2)
SHARES = (0.0, 0.03, 0.5, 0.8, 1.0)
ALONE = {"m2_weight": 0.0, "v_weight": 0.0, "l_weight": 0.0, "vl_weight": 0.0}


def points(n: int, seed: int = 0, space: Space = SPACE) -> tuple[Tensor, Tensor]:
    make = torch.Generator().manual_seed(seed)
    image, text = (space.project(torch.randn(n, space.dim, generator=make).double()) for _ in range(2))
    return image, text


def at(step: int = 1, steps: int = 9, epoch_steps: int = 2, seed: int = 0, n: int = 5) -> Batch:
    index = torch.arange(n)
    return Batch(index, index, index, index, {}, StepInfo(seed, step, steps, epoch_steps))


@pytest.mark.parametrize("impl", ["eager", "tiled"])
@pytest.mark.parametrize("n", [2, 5])
@pytest.mark.parametrize("lam", SHARES)
@pytest.mark.parametrize("reading", READINGS)
def test_m2_equals_the_paper_read_aloud(reading, lam, n, impl):
    u, v = points(n)
    got = m2mix(u, v, lam, Scoring(SPACE, T2), reading=reading, impl=impl)
    assert float(got) == pytest.approx(by_hand.m2(u, v, lam, math.exp(T2), reading), abs=1e-12)


@pytest.mark.parametrize("impl", ["eager", "tiled"])
@pytest.mark.parametrize("original", [True, False])
@pytest.mark.parametrize("n", [2, 5])
@pytest.mark.parametrize("lam", SHARES)
def test_v_l_and_vl_equal_the_paper_read_aloud(lam, n, original, impl):
    u, v = points(n, 3)
    scoring, how = Scoring(SPACE, T), {"original_negatives": original, "impl": impl}
    expected = [mixed(u, v, lam, math.exp(T), original) for mixed in (by_hand.v, by_hand.vocal, by_hand.vl)]
    got = [mix(*points, lam, scoring, **how) for mix, points in ((v_mix, (u, v)), (v_mix, (v, u)), (vl_mix, (u, v)))]
    assert [float(x) for x in got] == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("reading", READINGS)
def test_m3_is_the_weighted_sum_over_the_epoch(reading):
    u, v = points(5)
    weights = {"m2_weight": 0.4, "v_weight": 0.3, "l_weight": 0.2, "vl_weight": 0.1}
    objective = M3Mix(**weights, reading=reading, m2_alpha=(0.5, 2.0), m2_scale=math.exp(T2), m2_scale_learned=False)
    loss = objective(Embeddings(u, v), at(step=6), log_scale=T, space=SPACE)
    moment = at(step=6).moment
    assert moment.epoch == 3  # steps 5 and 6
    lam = {term: objective.share(moment, term) for term in ("m2", "v", "l", "vl")}
    assert len(set(lam.values())) == 4  # each term draws its own
    scale = math.exp(T)
    expected = {
        "contrastive": by_hand.clip(u, v, scale),
        "m2": by_hand.m2(u, v, lam["m2"], math.exp(T2), reading),
        "v": by_hand.v(u, v, lam["v"], scale),
        "l": by_hand.vocal(u, v, lam["l"], scale),
        "vl": by_hand.vl(u, v, lam["vl"], scale),
    }
    assert {name: float(value) for name, value in loss.terms.items()} == pytest.approx(expected, abs=1e-12)
    mixed = sum(weights[f"{term}_weight"] * expected[term] for term in lam)
    assert float(loss.total) == pytest.approx(expected["contrastive"] + mixed / 3, abs=1e-12)


@pytest.mark.parametrize(
    ("reading", "name", "impl"),
    [("proof", "sphere", "eager")]
    + [
        pytest.param(*rest, marks=pytest.mark.slow)
        for rest in (
            *((reading, "sphere", impl) for reading in READINGS for impl in ("eager", "tiled")),
            *(("proof", name, "eager") for name in NAMES if name != "sphere"),
        )
        if rest != ("proof", "sphere", "eager")
    ],
)
def test_gradients_equal_finite_differences(reading, name, impl):
    space = space_named(name, 4)
    lam = 0.3
    u, v = (x.requires_grad_() for x in points(3, 5, space))
    t, t2 = (torch.tensor(x, dtype=torch.float64, requires_grad=True) for x in (0.9, 0.4))

    def total(u: Tensor, v: Tensor, t: Tensor, t2: Tensor) -> Tensor:
        image, text = space.project(u), space.project(v)
        mixes = (v_mix, image, text), (v_mix, text, image), (vl_mix, image, text)
        uni = torch.stack([mix(rows, cols, lam, Scoring(space, t), impl=impl) for mix, rows, cols in mixes]).sum()
        return uni + m2mix(image, text, lam, Scoring(space, t2), reading=reading, impl=impl)

    assert torch.autograd.gradcheck(total, (u, v, t, t2))


@pytest.mark.parametrize("name", NAMES)
def test_tiles_change_nothing(name, monkeypatch):
    """Tiles of 3 in a batch of 7, so that diagonal and mirror cross them everywhere."""
    monkeypatch.setattr(contrast, "__kwdefaults__", {**contrast.__kwdefaults__, "tile": 3})
    space = space_named(name, 8)
    leaves = [x.requires_grad_() for x in points(7, 1, space)]
    for reading, original in (("pseudo_code", True), ("released", False), ("proof", True)):
        found = []
        for impl in ("eager", "tiled"):
            objective = M3Mix(
                of=CLIP(impl=impl), m2_weight=1.0, v_weight=1.0, l_weight=1.0, vl_weight=1.0, reading=reading,
                original_negatives=original, m2_scale_learned=False, impl=impl,
            )  # fmt: skip
            total = objective(Embeddings(*leaves), at(4), log_scale=1.0, space=space).total
            found.append((total.detach(), *torch.autograd.grad(total, leaves)))
        for eager, tiled in zip(*found, strict=True):
            torch.testing.assert_close(tiled, eager, rtol=0, atol=1e-12 * max(1.0, float(eager.abs().max())))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("dtype", "t"), [(torch.float32, math.log(100.0)), pytest.param(torch.float64, 0.0, marks=pytest.mark.slow)]
)
def test_everything_is_finite_at_the_edges(name, dtype, t):
    """Identical captions were 0/0 in the released code, and so were opposite points."""
    space = space_named(name, 6)
    u, v = (x.to(dtype) for x in points(4, 2, space))
    same = u[:1].expand(4, -1).clone()
    for image, text in ((u, v), (u, u), (u, -u), (u, same), (same, same), (same, -same), (u, u.flip(0))):
        for reading in READINGS:
            leaves = [x.clone().requires_grad_() for x in (image, text)]
            objective = M3Mix(reading=reading, m2_scale=0.0, m2_weight=1.0)
            loss = objective(Embeddings(*leaves), at(), log_scale=t, space=space)
            loss.total.backward()
            assert loss.total.isfinite()
            assert all(x.grad.isfinite().all() for x in leaves)


def test_a_share_of_one_or_none_leaves_nothing_mixed():
    u, v = points(6)
    scoring = Scoring(SPACE, T)
    plain = by_hand.clip(u, v, math.exp(T))
    for mixed in (v_mix, vl_mix):
        assert float(mixed(u, v, 1.0, scoring)) == pytest.approx(plain, abs=1e-12)
    # λ = 0 of VL pairs each mirror with its own text, so that only the diagonal's values move along
    swapped = by_hand.vl(u, v, 0.0, math.exp(T))
    assert float(vl_mix(u, v, 0.0, scoring)) == pytest.approx(swapped, abs=1e-12)
    # the proof's mix without any share of the anchor is the plain negative: m² is CLIP, one way each
    rows = by_hand.cross_entropy(by_hand.scaled((u @ v.T).tolist(), math.exp(T)), by_hand.eye(6))
    cols = by_hand.cross_entropy(by_hand.scaled((v @ u.T).tolist(), math.exp(T)), by_hand.eye(6))
    assert float(m2mix(u, v, 0.0, scoring, reading="proof")) == pytest.approx((rows + cols) / 2, abs=1e-12)


def test_the_order_of_readings_is_not_a_matter_of_taste():
    """They are three objectives: on the same points they differ."""
    u, v = points(6)
    found = [float(m2mix(u, v, 0.4, Scoring(SPACE, T2), reading=reading)) for reading in READINGS]
    assert min(abs(a - b) for i, a in enumerate(found) for b in found[:i]) > 1e-3


@pytest.mark.parametrize("n", [4, 5])
def test_the_mirrored_target_is_the_paper_s_for_any_block(n):
    target = Mirrored(0.3, 0.7).sized(n, n)
    whole = torch.tensor(by_hand.shared(n, 0.3, 0.7), dtype=torch.float64)
    for rows, cols in ((range(n), range(n)), (range(1, 3), range(2, n)), (range(1), range(1, n - 1))):
        block = target.block(rows, cols, whole)
        expected = whole[rows.start : rows.stop, cols.start : cols.stop]
        for shares in (block.by_row, block.by_col):
            got = torch.zeros_like(expected) if shares is None else shares
            torch.testing.assert_close(got, expected, rtol=0, atol=1e-15)
    assert target.block(range(1), range(1, n - 1), whole).by_row is None  # nothing to add up
    with pytest.raises(UserError, match="as many columns as rows, not 3 and 4"):
        Mirrored(0.5, 0.5).sized(4, 3)


def test_shares_are_drawn_from_beta_and_depend_on_seed_term_and_step_alone():
    drawn = [drawn_share(StepInfo(3, step, 4000), "m2", (0.5, 0.5)) for step in range(1, 2001)]
    assert drawn == [drawn_share(StepInfo(3, step, 4000), "m2", (0.5, 0.5)) for step in range(1, 2001)]
    # Beta(α, α) has mean ½ and variance 1/(4 (2α + 1))
    assert statistics.mean(drawn) == pytest.approx(0.5, abs=0.03)
    assert statistics.variance(drawn) == pytest.approx(1 / 8, abs=0.008)
    round_ones = [drawn_share(StepInfo(3, step, 4000), "m2", (2.0, 2.0)) for step in range(1, 2001)]
    assert statistics.variance(round_ones) == pytest.approx(1 / 20, abs=0.004)
    others = [drawn_share(StepInfo(*where), term, (0.5, 0.5)) for where, term in (((4, 1), "m2"), ((3, 1), "v"))]
    assert len({drawn[0], drawn[1], *others}) == 4
    for alpha in (1e-6, 1e-3, 1e3):
        assert all(0 <= drawn_share(StepInfo(0, step), "v", (alpha, alpha)) <= 1 for step in range(1, 50))


def test_schedules_follow_the_paper():
    for step in range(1, 11):
        moment = StepInfo(0, step, 10, epoch_steps=3)
        assert alpha_at(moment, (2.0, 0.1)) == pytest.approx(by_hand.linear((2.0, 0.1), step, 10))
        assert weight_at(moment, True) == 1 / math.ceil(step / 3)
        assert weight_at(moment, False) == 1
    assert (alpha_at(StepInfo(0, 1, 10), (2.0, 0.1)), alpha_at(StepInfo(0, 10, 10), (2.0, 0.1))) == (2.0, 0.1)
    assert alpha_at(StepInfo(), (2.0, 0.1)) == 2.0  # a run of one step has no way to go
    # what is drawn at the end is what the last α would have drawn from the start
    assert drawn_share(StepInfo(0, 10, 10), "v", (2.0, 0.1)) == drawn_share(StepInfo(0, 10, 10), "v", (0.1, 0.1))


def test_the_temperature_of_m2_is_its_own_the_model_s_or_learned():
    u, v = points(5)
    t2 = torch.full((5, 1), T2, dtype=torch.float64, requires_grad=True)
    lam = M3Mix().share(at().moment, "m2")
    only = {**ALONE, "m2_weight": 1.0}
    expected = {scale: by_hand.m2(u, v, lam, math.exp(scale), "pseudo_code") for scale in (T, T2)}
    learned = M3Mix(**only)(Embeddings(u, v, further={"m2_log_scale": t2}), at(), log_scale=T, space=SPACE)
    fixed = M3Mix(**only, m2_scale=math.exp(T2), m2_scale_learned=False)
    shared = M3Mix(**only, m2_scale=0.0)
    assert float(learned.terms["m2"].detach()) == pytest.approx(expected[T2], abs=1e-12)
    assert learned.facts()["mix/logit_scale"] == pytest.approx(math.exp(T2))
    for objective, scale in ((fixed, T2), (shared, T)):
        found = objective(Embeddings(u, v), at(), log_scale=T, space=SPACE).terms["m2"]
        assert float(found) == pytest.approx(expected[scale], abs=1e-12)
    # the gradient of the number that all rows hold is the sum of theirs
    step = 1e-6
    ends = [by_hand.m2(u, v, lam, math.exp(T2 + d), "pseudo_code") for d in (step, -step)]
    (grad,) = torch.autograd.grad(learned.total, t2)
    assert float(grad.sum()) == pytest.approx((ends[0] - ends[1]) / (2 * step), rel=1e-6)
    assert (list(M3Mix().heads), list(fixed.heads), list(shared.heads)) == (["m2_scale"], [], [])
    assert M3Mix(**{**only, "m2_weight": 0.0}).needs == ("image", "text")


def test_it_goes_with_other_objectives():
    u, v = points(5)
    soft = SoftCLIP(guide=GUIDES["image_text"])
    weights = {**ALONE, "vl_weight": 2.0}
    loss = M3Mix(of=soft, **weights, per_epoch=False)(Embeddings(u, v), at(5), log_scale=T, space=SPACE)
    plain = soft(Embeddings(u, v), log_scale=T, space=SPACE)
    lam = M3Mix().share(at(5).moment, "vl")
    expected = float(plain.total) + 2 * by_hand.vl(u, v, lam, math.exp(T))
    assert float(loss.total) == pytest.approx(expected, abs=1e-12)
    assert list(loss.terms) == ["soft", "relation", "contrastive", "vl"]
    assert M3Mix(of=SoftCLIP()).needs == ("image", "text", "regions", "tags", "m2_log_scale")


@pytest.mark.parametrize(("preset", "term"), [("m2mix", "m2"), ("vmix", "v"), ("lmix", "l"), ("vlmix", "vl")])
def test_presets_are_one_mixup_each(preset, term):
    u, v = points(5)
    objective = OBJECTIVES[preset]
    further = {role: torch.full((5, 1), T2).double() for role in objective.needs if role == "m2_log_scale"}
    loss = objective(Embeddings(u, v, further=further), at(), log_scale=T, space=SPACE)
    assert list(loss.terms) == ["contrastive", term]
    assert float(loss.total - loss.terms["contrastive"]) == pytest.approx(0.1 * float(loss.terms[term]), abs=1e-12)


@pytest.mark.parametrize("reading", READINGS)
def test_how_many_mixed_negatives_are_above_the_positive_is_logged(reading):
    """Fig. 12-15: for images, and for texts, against loops."""
    u, v = points(6, 4)
    lam, n = 0.6, 6
    own = [float(u[i] @ v[i]) for i in range(n)]
    found = mixed_above(u, v, lam, space=SPACE, reading=reading)
    for side, half in halves(u, v, lam, space=SPACE, reading=reading).items():
        count = 0
        for i in range(n):
            for j in range(n):
                count += i != j and float(half.scorer.similarity(half.rows[i : i + 1], half.cols[j : j + 1])) > own[i]
        assert found[side] == pytest.approx(count / (n * (n - 1)))
    assert 0 < found["image"] <= 1
    facts = M3Mix(m2_scale_learned=False, reading=reading)(Embeddings(u, v), at(), log_scale=T, space=SPACE).facts()
    share = M3Mix().share(at().moment, "m2")
    assert facts["mix/share_m2"] == share
    assert facts["mix/above_text"] == mixed_above(u, v, share, space=SPACE, reading=reading)["text"]


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"v_weight": -0.1}, "v_weight must be at least 0, not -0.1"),
        ({"reading": "aloud"}, "reading must be one of pseudo_code, released, proof, not 'aloud'"),
        ({"alpha": (2.0, 0.0)}, r"alpha must be two numbers above 0, not \[2.0, 0.0\]"),
        ({"m2_scale": -1.0}, "m2_scale must be positive, or 0 to share the model's logit scale, not -1.0"),
        ({"m2_scale": 101.0}, "scale must be above 0 and at most 100, not 101.0"),
    ],
)
def test_bad_settings_get_a_sentence(settings, sentence):
    with pytest.raises(UserError, match=sentence):
        M3Mix(**settings)


def test_what_cannot_be_mixed_gets_a_sentence():
    sets = TokenSets(3, 2)
    u, v = points(3, 0, sets)
    for reading in READINGS:
        with pytest.raises(UserError, match="the space TokenSets has no geodesics to mix along"):
            M3Mix(m2_scale=0.0, reading=reading)(Embeddings(u, v), log_scale=T, space=sets)
    with pytest.raises(UserError, match="m² learns a logit scale of its own"):
        M3Mix()(Embeddings(*points(3)), log_scale=T, space=SPACE)
