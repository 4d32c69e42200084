"""Micro-batches give the loss and the gradients of the whole batch, for every objective."""

from __future__ import annotations

import pytest
import torch
from small_model import OF_MODALITIES, objective_named, random_batch, small_model

from equipoise.objectives import OBJECTIVES
from equipoise.spaces import TokenSets
from equipoise.training.settings import Training
from equipoise.training.step import Step


def gradients(objective: str, micro: int, impl: str = "eager", **changes) -> tuple[float, dict[str, torch.Tensor]]:
    chosen = objective_named(objective, impl)
    if objective == "filip":
        changes |= {"space": TokenSets(4, 8), "readout": "token_set"}
    model = small_model(heads=chosen.heads, **changes)
    step = Step(model.train(), chosen, Training(micro_batch=micro), torch.device("cpu"))
    torch.manual_seed(5)
    loss = step._backward(random_batch(12))
    return loss.total.item(), {name: p.grad for name, p in model.named_parameters()}


WITH_NORMS = {"slip", "declip"}  # which normalise each micro-batch by itself
FUSED = {"albef", "tcl"}  # which refuse them: tests/objectives/test_albef.py


EXACT = [*sorted(OBJECTIVES.keys() - WITH_NORMS - FUSED - OF_MODALITIES), "declip_without_norms", "numbered"]


@pytest.mark.parametrize("objective", EXACT)
@pytest.mark.parametrize("micro", [5, *(pytest.param(size, marks=pytest.mark.slow) for size in (1, 4, 11))])
@pytest.mark.parametrize("impl", ["tiled", pytest.param("eager", marks=pytest.mark.slow)])
def test_micro_batches_equal_the_whole(objective, micro, impl):
    whole_loss, whole = gradients(objective, 0)
    loss, parts = gradients(objective, micro, impl)
    assert loss == pytest.approx(whole_loss, abs=1e-12)
    for name, grad in whole.items():
        if grad is None:  # class tokens, where nobody reads them
            assert parts[name] is None
            continue
        torch.testing.assert_close(parts[name], grad, rtol=0, atol=1e-12, msg=lambda text, name=name: f"{name}: {text}")


def test_the_temperature_gets_its_gradient_once():
    """open_clip #761, #957: accumulation scales the gradient of logit_scale by the number of micro-batches."""
    whole, parts = gradients("clip", 0)[1], gradients("clip", 3)[1]
    assert whole["logit_scale"].abs() > 1e-3
    torch.testing.assert_close(parts["logit_scale"], whole["logit_scale"], rtol=1e-10, atol=0)


@pytest.mark.parametrize("micro", [1, 5])
def test_micro_batches_equal_the_whole_through_a_code_book(micro):
    whole, parts = gradients("clip", 0, readout="code_book")[1], gradients("clip", micro, readout="code_book")[1]
    assert whole["shared.codes"].abs().sum() > 1e-3
    for name, grad in whole.items():
        torch.testing.assert_close(parts[name], grad, rtol=0, atol=1e-12)


def test_a_learned_bias_gets_its_gradient_once():
    whole, parts = gradients("siglip", 0, bias=-3.0)[1], gradients("siglip", 5, "tiled", bias=-3.0)[1]
    assert whole["logit_bias"].abs() > 1e-3
    torch.testing.assert_close(parts["logit_bias"], whole["logit_bias"], rtol=1e-10, atol=0)


def test_random_patches_are_the_same_both_times():
    """With patch dropout the second pass must see what the first saw: gradients at the points the loss was taken at."""
    loss, parts = gradients("clip", 4, patch_dropout=0.5)
    model = small_model(patch_dropout=0.5).train()
    torch.manual_seed(5)
    batch, objective = random_batch(12), objective_named("clip")
    embedded = [model(batch.map(lambda t, k=k: t[k : k + 4])) for k in (0, 4, 8)]
    whole = type(embedded[0])(*(torch.cat([getattr(e, role) for e in embedded]) for role in ("image", "text")))
    expected = objective(whole, log_scale=model.log_scale, space=model.space).total
    expected.backward()
    assert loss == pytest.approx(expected.item(), abs=1e-12)
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(parts[name], parameter.grad, rtol=0, atol=1e-12)
