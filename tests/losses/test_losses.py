"""Losses as modules: values against whole matrices of float64, gradients against differences, open_clip's signature."""

from __future__ import annotations

import math

import losses_by_hand as by_hand
import pytest
import torch
from every_space import NAMES, space_named
from torch import Tensor
from torch.nn import functional as F

import equipoise as eq
from equipoise import losses, objectives
from equipoise.kernels import Scoring
from equipoise.losses import CLIPLoss, CyCLIPLoss, DeCLIPLoss, M2MixLoss, M3MixLoss, PairLoss, SigLIPLoss, SoftCLIPLoss
from equipoise.targets import Duplicates, Softened
from equipoise.types import Batch, Embeddings, UserError

SCALE = 9.5
ALL = {
    "clip": CLIPLoss,
    "siglip": SigLIPLoss,
    "softclip": SoftCLIPLoss,
    "cyclip": CyCLIPLoss,
    "m2mix": M2MixLoss,
    "m3mix": M3MixLoss,
}


def points(n: int = 6, dim: int = 8, seed: int = 0) -> list[Tensor]:
    make = torch.Generator().manual_seed(seed)
    return [F.normalize(torch.randn(n, dim, generator=make, dtype=torch.float64), dim=-1) for _ in range(2)]


def scale(value: float = SCALE) -> Tensor:
    return torch.tensor(value, dtype=torch.float64)


def shares(loss: M3MixLoss) -> dict[str, float]:
    """λ of each term in the step before."""
    return {term: loss.objective.share(loss.position.moment, term) for term in ("m2", "v", "l", "vl")}


def test_clip_and_siglip_are_their_formulas():
    u, v = points()
    weights = torch.tensor([1.0, 0.2, 0.0, 3.0, 0.5, 1.0], dtype=torch.float64)
    torch.testing.assert_close(CLIPLoss()(u, v, scale()), by_hand.clip(u, v, scale()))
    torch.testing.assert_close(CLIPLoss()(u, v, scale(), weights=weights), by_hand.clip(u, v, scale(), weights))
    for bias in (-7.0, scale(-3.0), None):
        expected = by_hand.siglip(u, v, scale(), 0.0 if bias is None else bias)
        torch.testing.assert_close(SigLIPLoss()(u, v, scale(), bias), expected)


def test_softclip_takes_guides_by_name_and_by_tensor():
    u, v = points()
    r, a = (F.normalize(x, dim=-1) for x in torch.randn(2, 6, 5, generator=torch.manual_seed(3), dtype=torch.float64))
    cases = {
        (u, v): SoftCLIPLoss(guide="image_text")(u, v, scale(), output_dict=True),
        (r, r): SoftCLIPLoss()(u, v, scale(), output_dict=True, guide=3 * r),
        (r, a): SoftCLIPLoss()(u, v, scale(), output_dict=True, guide=(r, a)),
        (a, r): SoftCLIPLoss("vectors")(u, v, scale(), output_dict=True, image_vectors=a, text_vectors=r),
        (v, u): SoftCLIPLoss("regions_tags")(u, v, scale(), output_dict=True, regions=v, tags=u),
    }
    for guides, found in cases.items():
        for name, value in by_hand.softclip(u, v, scale(), guides).items():
            torch.testing.assert_close(found[f"{name}_loss"], value)


def test_cyclip_is_its_formula():
    u, v = points()
    found = CyCLIPLoss()(u, v, scale(), output_dict=True)
    for name, value in by_hand.cyclip(u, v, scale()).items():
        torch.testing.assert_close(found[f"{name}_loss"], value)


def test_mixups_are_their_formulas_with_a_new_share_for_every_batch():
    u, v = points()
    loss, drawn = M3MixLoss(seed=4), []
    for _ in range(3):
        found = loss(u, v, scale(), output_dict=True)
        lam = shares(loss)
        drawn.append(lam["m2"])
        expected = {
            "contrastive_loss": by_hand.clip(u, v, scale()),
            "m2_loss": 0.02 * by_hand.m2(u, v, lam["m2"], 1 / 0.07),
            "v_loss": 0.05 * by_hand.v_mix(u, v, lam["v"], scale()),
            "l_loss": 0.05 * by_hand.v_mix(v, u, lam["l"], scale()),
            "vl_loss": 0.1 * by_hand.vl_mix(u, v, lam["vl"], scale()),
        }
        assert found.keys() == expected.keys()
        for name, value in expected.items():
            torch.testing.assert_close(found[name], value)
    assert len(set(drawn)) == 3
    loss.eval()
    assert torch.equal(loss(u, v, scale()), loss(u, v, scale()))
    again = M3MixLoss(seed=4)
    again.position.step = 2  # a run that resumes
    assert again(u, v, scale(), output_dict=True)["m2_loss"] == found["m2_loss"]


def test_m2mix_has_one_weight_that_falls_with_the_epoch_where_epochs_are_known():
    u, v = points()
    plain, falling = M2MixLoss(0.3, m2_scale=0.0), M2MixLoss(0.3, m2_scale=0.0, steps=10, epoch_steps=2)
    for epoch in (1, 1, 2, 2, 3):
        assert plain(u, v, scale(), output_dict=True)["m2_loss"] == pytest.approx(
            0.3 * by_hand.m2(u, v, shares(plain)["m2"], SCALE).item(), rel=1e-9
        )
        found = falling(u, v, scale(), output_dict=True)["m2_loss"]
        assert float(found) == pytest.approx(0.3 / epoch * by_hand.m2(u, v, shares(falling)["m2"], SCALE).item())


def test_declip_is_four_pairs_and_the_nearest_texts_of_former_batches():
    (u, v), (u2, v2) = points(), points(seed=1)
    loss = DeCLIPLoss(queue=16)
    views = {"image_view2": u2, "text_view2": v2}
    first = loss(u, v, scale(), output_dict=True, **views)
    four = sum(by_hand.clip(a, b, scale()) for a in (u, u2) for b in (v, v2)) / 4
    torch.testing.assert_close(first["contrastive_loss"], 0.4 * four)
    queue = torch.cat([v2, v]).float().double()  # 12 texts of the first batch
    second = loss(u, v, scale(), output_dict=True, **views)
    near = [queue[(x @ queue.T).argmax(1)] for x in (v, v2)]
    rows = [-(SCALE * a @ b.T).log_softmax(1).diagonal().mean() for a in (u, u2) for b in near]
    torch.testing.assert_close(second["nearest_loss"], 0.2 * sum(rows) / 4, atol=1e-6, rtol=1e-6)
    assert loss.queue.filled == 16
    one_text = DeCLIPLoss(queue=16, second_text=False)(u, v, scale(), output_dict=True, image_view2=u2)
    half = (by_hand.clip(u, v, scale()) + by_hand.clip(u2, v, scale())) / 2
    torch.testing.assert_close(one_text["contrastive_loss"], 0.4 * half)


@pytest.mark.slow
@pytest.mark.parametrize("name", ALL)
def test_gradients_are_those_of_finite_differences(name):
    u, v = points(4, 3)
    loss = ALL[name]().eval()  # so that λ is the same in every call

    def of_vectors(x: Tensor, y: Tensor, t: Tensor) -> Tensor:
        return loss(F.normalize(x, dim=-1), F.normalize(y, dim=-1), t.exp(), -2 * t)

    leaves = [x.clone().requires_grad_() for x in (1.3 * u, 0.8 * v, torch.tensor(0.7, dtype=torch.float64))]
    assert torch.autograd.gradcheck(of_vectors, leaves, eps=1e-6, atol=1e-6)


@pytest.mark.parametrize("space", NAMES)
@pytest.mark.parametrize("name", ALL)
def test_every_space_and_terms_that_sum_to_the_loss(name, space):
    where = space_named(space, 8)
    u, v = (where.project(3 * x) for x in points())
    loss = ALL[name](space=where).eval()
    total = loss(u, v, scale(2.0), -1.0)
    torch.testing.assert_close(sum(loss(u, v, scale(2.0), -1.0, output_dict=True).values()), total)
    projecting = ALL[name](space=where, project=True).eval()
    torch.testing.assert_close(projecting(3 * u if "sphere" in space else u, v, scale(2.0), -1.0), total)
    moment, objective = loss.position.moment, loss.objective
    n = torch.arange(6)
    bias = None if objective.learned_bias is None else -1.0
    known = objective.loss(Embeddings(u, v), Batch(n, n, n, n, {}, moment), Scoring(where, math.log(2.0), bias))
    torch.testing.assert_close(total, known.total)


def test_a_space_by_name_is_as_wide_as_the_features():
    u, v = points(4, 128)
    wide = eq.ProductSphere(64, 2)
    loss = CLIPLoss(space="product_sphere")
    u, v = loss.project(u), loss.project(v)
    torch.testing.assert_close(u, wide.project(u))
    torch.testing.assert_close(loss.similarity(u, v[:3]), wide.similarity(u, v[:3]))
    torch.testing.assert_close(loss(u, v, scale()), by_hand.clip(u, v, scale()))
    assert float(CLIPLoss(space="euclidean")(u, v, scale())) > 0


def test_a_target_that_compares_samples_reads_what_is_handed_in():
    u, v = points()
    captions = torch.tensor([0, 1, 1, 2, 3, 4])
    found = CLIPLoss(target="duplicates")(u, v, scale(), caption=captions)
    z, alike = scale() * u @ v.T, (captions[:, None] == captions).double()
    target = alike / alike.sum(1, keepdim=True)
    expected = -((target * z.log_softmax(1)).sum() + (target * z.log_softmax(0)).sum()) / 12
    torch.testing.assert_close(found, expected)


def test_any_objective_is_a_loss():
    u, v = points()
    loss = PairLoss(objectives.CLIP(target="smoothed"))(u, v, scale())
    n = torch.arange(6)
    known = objectives.OBJECTIVES["clip_smoothed"](
        Embeddings(u, v), Batch(n, n, n, n), log_scale=math.log(SCALE), space=eq.Sphere(8)
    )
    torch.testing.assert_close(loss, known.total)


def test_a_loss_stands_beside_another():
    u, v = points()
    soft = sum(by_hand.softclip(u, v, scale(), (u, v)).values())
    for of in ("softclip", SoftCLIPLoss(), objectives.SoftCLIP(guide="image_text")):
        for loss in (CyCLIPLoss(of=of), M2MixLoss(of=of)):
            terms = loss(u, v, scale(), output_dict=True)
            found = sum(terms[f"{name}_loss"] for name in ("soft", "relation", "contrastive"))
            torch.testing.assert_close(found, soft)


def test_schedules_know_the_length_of_the_run():
    u, v = points()
    loss = SoftCLIPLoss(warmup=0.5, steps=5)
    assert [len(loss(u, v, scale(), output_dict=True)) for _ in range(7)] == [1, 1, 3, 3, 3, 3, 3]


@pytest.mark.parametrize("n", [2, 64, 300])
def test_clip_and_siglip_equal_open_clip_with_the_same_call(open_clip, n):
    pair = [x.float() for x in points(n, 64, seed=n)]
    for ours, theirs in ((CLIPLoss(), open_clip.loss.ClipLoss()), (SigLIPLoss(), open_clip.loss.SigLipLoss())):
        found = []
        for loss in (ours, theirs):
            leaves = [x.clone().requires_grad_() for x in (*pair, torch.tensor(2.6), torch.tensor(-4.0))]
            u, v, t, bias = leaves
            out = loss(image_features=u, text_features=v, logit_scale=t.exp(), logit_bias=bias, output_dict=True)
            assert out.keys() == {"contrastive_loss"}
            grads = torch.autograd.grad(sum(out.values()), leaves)
            found.append([out["contrastive_loss"], *grads])
        for mine, other in zip(*found, strict=True):
            torch.testing.assert_close(mine, other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ALL)
def test_half_precision_is_added_up_in_float32(name):
    u, v = (x.float() for x in points(16, 32))
    loss = ALL[name]().eval()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = loss(u, v, torch.tensor(SCALE), -2.0)
    assert found.dtype == torch.float32
    assert torch.equal(found, loss(u, v, torch.tensor(SCALE), -2.0))
    for dtype in (torch.bfloat16, torch.float16):
        u_half, v_half = u.to(dtype).requires_grad_(), v.to(dtype)
        half = loss(u_half, v_half, torch.tensor(SCALE), -2.0)
        assert torch.equal(half, loss(u_half.float(), v_half.float(), torch.tensor(SCALE), -2.0))
        half.backward()
        assert u_half.grad.dtype == dtype


def test_a_bias_that_a_softmax_does_not_see_has_a_gradient_of_zero():
    u, v = points()
    for output_dict in (False, True):
        bias = torch.tensor([-3.0], requires_grad=True)
        found = SoftCLIPLoss()(u, v, scale(), bias, output_dict)
        (sum(found.values()) if output_dict else found).backward()
        assert bias.grad.tolist() == [0.0]


def test_parts_are_chosen_by_name_in_python_too():
    assert objectives.SoftCLIP(guide="image_text").guide == eq.Guide(by_row="image", by_col="text")
    assert objectives.CLIP(target="duplicates").target == Duplicates()
    assert objectives.CyCLIP(of="softclip").of == objectives.SoftCLIP()
    assert Softened(of="labels").of == Duplicates(same=("label",))
    with pytest.raises(UserError, match=r"guide must be one of regions_tags, image_text.*'image_txt'"):
        objectives.SoftCLIP(guide="image_txt")


def test_losses_have_no_state_and_are_public():
    assert eq.losses is losses
    for name in losses.__all__:
        assert getattr(eq.losses, name)
    assert not [key for loss in ALL.values() for key in loss().state_dict()]


def test_a_code_book_makes_points_of_tokens_and_learns():
    torch.manual_seed(0)
    book = losses.CodeBook(12, 10, 16, codes=40, scale=1.0)
    patches, words = torch.randn(5, 7, 12), torch.randn(5, 6, 10)
    mask = torch.arange(6) < torch.tensor([[6], [3], [1], [4], [2]])
    image, text = book(patches, words, text_mask=mask)
    queries = book.text.projection(words) / 4
    relevance = torch.stack([(q[real] @ book.book.codes.T).amax(0) for q, real in zip(queries, mask, strict=True)])
    expected = F.normalize(eq.sparsemax(relevance) @ book.book.codes, dim=-1)
    torch.testing.assert_close(text, expected)
    torch.testing.assert_close(book.shares("text", words, mask), eq.sparsemax(relevance))
    CLIPLoss()(image, text, 10.0).backward()
    assert all(parameter.grad is not None for parameter in book.parameters())
