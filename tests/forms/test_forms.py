"""Forms against their formulas, read aloud, on targets that are not the paper's own."""

from __future__ import annotations

import math

import pytest
import torch

import equipoise as eq
from equipoise.forms import Complementary, StackedForms
from equipoise.targets import OneHot, Smoothed

SPACE = eq.Sphere(8)


def points() -> tuple[torch.Tensor, torch.Tensor]:
    make = torch.Generator().manual_seed(1)
    u, v = (SPACE.project(torch.randn(7, 8, generator=make, dtype=torch.float64)) for _ in range(2))
    return u, v


@pytest.mark.parametrize("impl", ["eager", "tiled"])
def test_sigmoid_loss_equals_the_paper_read_aloud(impl):
    u, v = points()
    expected = 0.0
    for i in range(7):
        for j in range(7):
            x = math.exp(1.3) * float(u[i] @ v[j]) - 10
            y = 1 if i == j else -1
            expected -= math.log(1 / (1 + math.exp(-y * x))) / 7
    got = eq.contrast(u, v, space=SPACE, target=OneHot(), form=eq.Sigmoid(), log_scale=1.3, impl=impl, tile=3)
    assert float(got) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("target", [OneHot(), Smoothed()])
def test_a_learned_bias_has_the_gradient_of_finite_differences_in_tiles_too(target):
    u, v = points()

    def loss(bias: torch.Tensor, impl: str) -> torch.Tensor:
        form = eq.Sigmoid(learned=True)
        return eq.contrast(u, v, space=SPACE, target=target, form=form, log_scale=1.3, bias=bias, impl=impl, tile=3)

    bias = torch.tensor(-2.5, dtype=torch.float64, requires_grad=True)
    fixed = eq.contrast(u, v, space=SPACE, target=target, form=eq.Sigmoid(-2.5), log_scale=1.3)
    for impl in ("eager", "tiled"):
        assert float(loss(bias, impl).detach()) == pytest.approx(float(fixed), abs=1e-12)
        assert torch.autograd.gradcheck(lambda b, impl=impl: loss(b, impl), bias)


def test_a_bias_belongs_to_a_form_that_learns_one():
    u, v = points()
    with pytest.raises(eq.UserError, match=r"learns its bias; give bias="):
        eq.contrast(u, v, space=SPACE, target=OneHot(), form=eq.Sigmoid(learned=True))
    with pytest.raises(eq.UserError, match="CrossEntropy learns no bias"):
        eq.contrast(u, v, space=SPACE, target=OneHot(), form=eq.CrossEntropy(), bias=torch.tensor(0.0))


def test_kl_and_cross_entropy_differ_by_the_entropy_of_a_fixed_target():
    u, v = points()
    alpha, n = 0.2, 7
    entropy = -(1 - alpha) * math.log(1 - alpha) - alpha * math.log(alpha / (n - 1))
    kl, ce = (
        float(eq.contrast(u, v, space=SPACE, target=Smoothed(alpha), form=form, log_scale=1.0))
        for form in (eq.Divergence("kl"), eq.CrossEntropy())
    )
    assert ce - kl == pytest.approx(entropy, abs=1e-13)


def test_kl_to_one_hot_is_the_cross_entropy():
    u, v = points()
    kl, ce = (
        float(eq.contrast(u, v, space=SPACE, target=OneHot(), form=form, log_scale=2.0))
        for form in (eq.Divergence("kl"), eq.CrossEntropy())
    )
    assert kl == pytest.approx(ce, abs=1e-13)


def test_js_is_at_most_log_2():
    u, _ = points()
    found = float(eq.contrast(u, -u, space=SPACE, target=OneHot(), form=eq.Divergence("js"), log_scale=6.9))
    assert math.log(2) * 0.99 < found <= math.log(2)


@pytest.mark.parametrize("impl", ["eager", "tiled"])
def test_forms_together_are_the_forms_apart(impl):
    leaves = [x.requires_grad_() for x in points()]
    forms = (eq.Divergence("kl"), eq.CrossEntropy(), eq.Divergence("js", among="negatives"))
    kwargs = {"space": SPACE, "target": Smoothed(), "log_scale": 1.5, "impl": impl, "tile": 3}
    weights = torch.tensor([0.3, 2.0, -1.0], dtype=torch.float64)
    together = eq.contrast(*leaves, form=StackedForms(forms), **kwargs)
    apart = torch.stack([eq.contrast(*leaves, form=form, **kwargs) for form in forms])
    torch.testing.assert_close(together, apart, rtol=0, atol=1e-13)
    for a, b in zip(
        torch.autograd.grad(weights @ together, leaves), torch.autograd.grad(weights @ apart, leaves), strict=True
    ):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-13)


def test_bad_settings_get_a_sentence():
    with pytest.raises(eq.UserError, match="among must be one of all, negatives, not 'some'"):
        eq.Divergence("kl", among="some")


@pytest.mark.parametrize("impl", ["eager", "tiled"])
def test_complementary_loss_equals_the_paper_read_aloud(impl):
    u, v = points()
    logits = math.exp(1.3) * u @ v.T
    expected = 0.0
    for rows in (logits.softmax(1), logits.T.softmax(1)):
        expected -= sum(math.log(1 - float(rows[i, j])) for i in range(7) for j in range(7) if i != j) / 7 / 2
    got = eq.contrast(u, v, space=SPACE, target=OneHot(), form=Complementary(), log_scale=1.3, impl=impl, tile=3)
    assert float(got) == pytest.approx(expected, abs=1e-12)
    u.requires_grad_()
    assert torch.autograd.gradcheck(
        lambda x: eq.contrast(
            x, v, space=SPACE, target=OneHot(), form=Complementary(), log_scale=1.3, impl=impl, tile=3
        ),
        u,
    )


def test_a_negative_that_takes_all_costs_a_finite_sum():
    u = torch.eye(3, dtype=torch.float64)
    v = u.roll(1, 0).requires_grad_()
    loss = eq.contrast(u, v, space=eq.Sphere(3), target=OneHot(), form=Complementary(), log_scale=math.log(100.0))
    loss.backward()
    assert math.isfinite(float(loss))
    assert v.grad is not None
    assert torch.isfinite(v.grad).all()
