"""SoftCLIP against the paper read aloud, its limits and its edges."""

from __future__ import annotations

import math

import pytest
import torch
from softclip_by_hand import DIVERGENCES, negatives, probabilities, softclip, softened
from torch import Tensor

import equipoise as eq
from equipoise.objectives import OBJECTIVES, SoftCLIP
from equipoise.targets import GUIDES, Duplicates, Guide
from equipoise.types import Batch, Embeddings, UserError

SPACE = eq.Sphere(8)
T = math.log(1 / 0.07)


def points(n: int, roles: int = 4, seed: int = 0) -> list[Tensor]:
    make = torch.Generator().manual_seed(seed)
    return [SPACE.project(torch.randn(n, 8, generator=make, dtype=torch.float64)) for _ in range(roles)]


def terms(objective: SoftCLIP, *roles: Tensor, t: float | Tensor = T, batch: Batch | None = None) -> dict[str, float]:
    loss = objective(Embeddings(*roles), batch, log_scale=t, space=SPACE)
    return {**{name: float(value) for name, value in loss.terms.items()}, "total": float(loss.total)}


def with_side(n: int, **side: Tensor) -> Batch:
    index = torch.arange(n)
    return Batch(index, index, index, index, side)


@pytest.mark.parametrize("kind", ["kl", "symmetric_kl", "js"])
@pytest.mark.parametrize("beta", [1e-3, 0.3, 1.0])
@pytest.mark.parametrize(("n", "impl"), [(2, "eager"), (7, "eager"), (7, "tiled")])
def test_equals_the_paper_read_aloud(kind, beta, n, impl):
    u, v, r, a = points(n)
    objective = SoftCLIP(beta=beta, relation_weight=0.7, clip_weight=0.4, divergence=kind, impl=impl)
    expected = softclip(u, v, r, a, scale=math.exp(T), beta=beta, kind=kind)
    expected["total"] = expected["soft"] + 0.7 * expected["relation"] + 0.4 * expected["contrastive"]
    assert terms(objective, u, v, r, a) == pytest.approx(expected, abs=1e-10)


def test_the_defaults_are_the_paper_s():
    u, v, r, a = points(6)
    found = terms(SoftCLIP(), u, v, r, a)
    expected = softclip(u, v, r, a, scale=math.exp(T), beta=0.3)
    assert found["total"] == pytest.approx(
        expected["soft"] + 1.0 * expected["relation"] + 0.5 * expected["contrastive"], abs=1e-10
    )


def test_negatives_do_not_depend_on_beta():
    """Off the diagonal the target is β p_ij, so β cancels: why the paper's accuracy hardly drops at β = 0.0001."""
    u, v, r, a = points(9)
    found = [terms(SoftCLIP(beta=beta), u, v, r, a)["relation"] for beta in (1e-300, 1e-4, 0.3, 0.9, 1.0)]
    assert found == pytest.approx([found[0]] * 5, rel=1e-13)


def test_small_beta_is_clip():
    """KL to a target that is all but one-hot is the cross-entropy."""
    found = terms(SoftCLIP(beta=1e-12, divergence="kl"), *points(9))
    assert found["soft"] == pytest.approx(found["contrastive"], abs=1e-9)


def test_nothing_is_lost_where_prediction_and_target_agree():
    u = points(6)[0]
    found = terms(SoftCLIP(beta=1.0, clip_weight=0.0), u, u, u, u)
    assert found == pytest.approx({"soft": 0, "relation": 0, "total": 0}, abs=1e-14)


@pytest.mark.parametrize("beta", [1e-30, 0.3, 1.0])
@pytest.mark.parametrize("t", [0.0, T, math.log(100.0)])
@pytest.mark.parametrize("kind", ["kl", "symmetric_kl", "js"])
def test_float32_is_finite_at_the_edges(beta, t, kind):
    u, v, _, _ = (x.float() for x in points(6))
    same = u[:1].expand(6, -1)
    for roles in ((u, v, u, same), (u, same, same, same), (u, -u, -u, u), (same, same, u, v)):
        for impl in ("eager", "tiled"):
            leaves = [x.clone().requires_grad_() for x in roles]
            scale = torch.tensor(t, requires_grad=True)
            loss = SoftCLIP(beta=beta, divergence=kind, impl=impl)(Embeddings(*leaves), log_scale=scale, space=SPACE)
            loss.total.backward()
            assert loss.total.isfinite()
            assert all(x.grad.isfinite().all() for x in (*leaves, scale))


def test_one_pair_costs_nothing():
    """There is nobody to mistake it for, and there are no relations to keep."""
    assert terms(SoftCLIP(), *points(1)) == pytest.approx({"soft": 0, "relation": 0, "contrastive": 0, "total": 0})


def test_two_pairs_have_no_relations():
    """One negative each: renormalised, both distributions are certain of it."""
    assert terms(SoftCLIP(), *points(2))["relation"] == pytest.approx(0, abs=1e-15)


def test_guides_are_exchangeable():
    u, v, r, a = points(7)
    assert terms(SoftCLIP(guide=GUIDES["image_text"]), u, v, r, a) == pytest.approx(terms(SoftCLIP(), u, v, u, v))
    vectors = with_side(7, image_vectors=3 * r, text_vectors=a / 2)  # of any length: their cosine counts
    assert terms(SoftCLIP(guide=GUIDES["vectors"]), u, v, batch=vectors) == pytest.approx(terms(SoftCLIP(), u, v, r, a))


def test_a_mix_of_guides_mixes_losses():
    """Fig. 5a: γ L(R, A) + (1 - γ) L(I, T)."""
    u, v, r, a = points(7)
    mixed = terms(SoftCLIP(gamma=0.3), u, v, r, a)
    first, second = terms(SoftCLIP(), u, v, r, a), terms(SoftCLIP(guide=GUIDES["image_text"]), u, v)
    for name in ("soft", "relation"):
        assert mixed[name] == pytest.approx(0.3 * first[name] + 0.7 * second[name], rel=1e-12)


def test_a_stopped_gradient_stops_only_the_target():
    roles = [x.requires_grad_() for x in points(7)]
    t = torch.tensor(T, dtype=torch.float64, requires_grad=True)

    def grads(guide: Guide, *inputs: Tensor) -> tuple[Tensor | None, ...]:
        loss = SoftCLIP(guide=guide)(Embeddings(*inputs), log_scale=t, space=SPACE)
        return torch.autograd.grad(loss.total, (*roles, t), allow_unused=True)

    stopped = grads(Guide(stop_gradient=True), *roles)
    assert stopped[2] is None
    assert stopped[3] is None
    flowing = grads(Guide(), *roles)
    assert all(grad.abs().max() > 0 for grad in flowing)
    torch.testing.assert_close(stopped[0], flowing[0])  # the guides are other points
    assert not torch.allclose(stopped[4], flowing[4])  # but share the temperature
    own = grads(Guide("image", "text", stop_gradient=True), *roles)
    assert not torch.allclose(own[0], grads(Guide("image", "text"), *roles)[0])


def test_what_it_needs_follows_from_its_guides():
    assert SoftCLIP().needs == ("image", "text", "regions", "tags")
    assert SoftCLIP(guide=GUIDES["image_text"]).needs == ("image", "text")
    assert SoftCLIP(guide=GUIDES["vectors"], gamma=0.5).needs == ("image", "text")
    assert SoftCLIP(gamma=0.0).needs == ("image", "text")


def test_matches_beyond_the_diagonal_are_no_negatives():
    """Two records that are the same: each other's match, so that only the third is a negative."""
    u, v, r, a = points(3)
    batch = with_side(3, caption=torch.tensor([5, 5, 6]))
    found = terms(SoftCLIP(match=Duplicates(("caption",))), u, v, r, a, batch=batch)
    assert found["relation"] != pytest.approx(terms(SoftCLIP(), u, v, r, a)["relation"])
    rest = SPACE.similarity(u, v) / 0.07
    guides = [SPACE.similarity(x, x) / 0.07 for x in (r, a)]
    expected = 0.0  # rows 0 and 1 have one negative, row 2 has two: only there is anything to compare
    for logits, guide in ((rest, guides[0]), (rest.T, guides[1])):
        p, q = guide[2, :2].softmax(0), logits[2, :2].softmax(0)
        expected += float(((p - q) * (p.log() - q.log())).sum()) / 2 / 3 / 2
    assert found["relation"] == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"beta": 0.0}, "beta must be above 0 and at most 1, not 0.0"),
        ({"beta": 1.2}, "beta must be above 0"),
        ({"gamma": 2.0}, "gamma must be from 0 to 1, not 2.0"),
        ({"divergence": "wasserstein"}, "kind must be one of kl, symmetric_kl, js, not 'wasserstein'"),
        ({"clip_weight": -1.0}, "clip_weight must be at least 0, not -1.0"),
    ],
)
def test_bad_settings_get_a_sentence(settings, sentence):
    with pytest.raises(UserError, match=sentence):
        SoftCLIP(**settings)


def test_missing_guides_get_a_sentence():
    u, v, r, _ = points(4)
    with pytest.raises(UserError, match="the guide looks at 'tags'"):
        SoftCLIP()(Embeddings(u, v, regions=r), log_scale=T, space=SPACE)
    with pytest.raises(UserError, match=r"there is no 'image_vectors' .*image, text"):
        SoftCLIP(guide=GUIDES["vectors"])(Embeddings(u, v), log_scale=T, space=SPACE)
    batch = with_side(4, image_vectors=torch.zeros(4, 2, 3), text_vectors=torch.zeros(4, 3))
    with pytest.raises(UserError, match=r"'image_vectors' has the shape \[4, 2, 3\]"):
        SoftCLIP(guide=GUIDES["vectors"])(Embeddings(u, v), batch, log_scale=T, space=SPACE)


def test_the_steps_of_table_5_are_presets():
    u, v, r, a = points(6)
    embeddings = Embeddings(u, v, r, a)
    expected = softclip(u, v, r, a, scale=math.exp(T), beta=0.3, kind="kl")
    wanted = {
        "clip_soft": expected["soft"] + 0.5 * expected["contrastive"],
        "clip_soft_relation": expected["soft"] + expected["relation"] + 0.5 * expected["contrastive"],
    }
    for name, value in wanted.items():
        total = OBJECTIVES[name](embeddings, log_scale=T, space=SPACE).total
        assert float(total) == pytest.approx(value, abs=1e-10)


@pytest.mark.parametrize("impl", ["eager", "tiled"])
@pytest.mark.parametrize("kind", ["kl", "symmetric_kl", "js"])
def test_a_row_without_guide_stays_one_hot(kind, impl):
    """It costs the cross-entropy, and nothing among negatives; the other rows cost what they cost."""
    n = 7
    u, v, r, a = points(n)
    has = {"regions": torch.arange(n) != 1, "tags": (torch.arange(n) != 0) & (torch.arange(n) != 4)}
    side = with_side(n, **{f"has_{name}": known for name, known in has.items()})
    soft = relation = 0.0
    for guide, known, rows, cols in ((r, has["regions"], u, v), (a, has["tags"], v, u)):
        wanted = softened(probabilities(guide, guide, math.exp(T)), 0.3)
        found = probabilities(rows, cols, math.exp(T))
        for i in range(n):
            if known[i]:
                soft += DIVERGENCES[kind](wanted[i], found[i]) / (2 * n)
                relation += DIVERGENCES[kind](negatives(wanted)[i], negatives(found)[i]) / (2 * n)
            else:
                soft -= math.log(found[i][i]) / (2 * n)
    got = terms(SoftCLIP(divergence=kind, impl=impl), u, v, r, a, batch=side)
    assert (got["soft"], got["relation"]) == pytest.approx((soft, relation), abs=1e-12)


@pytest.mark.parametrize("impl", ["eager", "tiled"])
def test_rows_without_guide_have_exact_gradients(impl):
    def total(*tensors: Tensor) -> Tensor:
        *roles, t = tensors
        known = torch.tensor([True, False, True, True, False])
        side = with_side(5, has_regions=known, has_tags=~known)
        projected = Embeddings(*map(SPACE.project, roles))
        return SoftCLIP(impl=impl)(projected, side, log_scale=t, space=SPACE).total

    inputs = [x.requires_grad_() for x in (*points(5), torch.tensor(1.0, dtype=torch.float64))]
    assert torch.autograd.gradcheck(total, inputs)


def test_without_any_guide_softclip_is_clip():
    nobody = torch.zeros(6, dtype=torch.bool)
    side = with_side(6, has_regions=nobody, has_tags=nobody)
    found = terms(SoftCLIP(), *points(6), batch=side)
    assert found["soft"] == pytest.approx(found["contrastive"], abs=1e-12)
    assert found["relation"] == 0
    u, v, r, a = (x.float().requires_grad_() for x in points(6))
    loss = SoftCLIP()(Embeddings(u, v, r, a), side, log_scale=math.log(100.0), space=SPACE)
    loss.total.backward()
    assert all(x.grad is None or x.grad.isfinite().all() for x in (u, v, r, a))
