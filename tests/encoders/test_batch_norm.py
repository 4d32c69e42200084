"""Batch norm over several processes: the formula, its gradient, and torch's layer as the oracle of the whole batch."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn

from equipoise.encoders.batch_norm import BatchNorm, batch_norms, leaving_statistics


def norm_of(channels: int, **changes) -> BatchNorm:
    torch.manual_seed(0)
    norm = BatchNorm(channels).double()
    for tensor in (norm.weight, norm.bias):
        nn.init.normal_(tensor)
    norm.total = changes.get("total", lambda tensor: tensor)
    return norm


@pytest.mark.parametrize("shape", [(4, 3, 2, 5), (2, 1, 1, 1), (1, 3, 2, 2)])
def test_alone_it_is_torchs_layer(shape):
    norm = norm_of(shape[1])
    plain = copy.deepcopy(norm)
    plain.total = None
    x = torch.randn(shape).double() * 3 + 100
    inputs = [x.clone().requires_grad_() for _ in range(2)]
    out = [layer(each) for layer, each in zip((norm, plain), inputs, strict=True)]
    upstream = torch.randn(shape).double()
    for each in out:
        each.backward(upstream)
    torch.testing.assert_close(out[0], out[1], rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(inputs[0].grad, inputs[1].grad, rtol=1e-10, atol=1e-10)
    for (name, mine), theirs in zip(norm.named_parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, theirs.grad, rtol=1e-10, atol=1e-10, msg=name)
    for (name, mine), theirs in zip(norm.named_buffers(), plain.buffers(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-12, atol=1e-12, msg=name)
    torch.testing.assert_close(norm.eval()(x), plain.eval()(x))


def test_gradients_against_finite_differences():
    norm = norm_of(2)
    with leaving_statistics(norm):
        x = torch.randn(3, 2, 2, 2).double().requires_grad_()
        assert torch.autograd.gradcheck(lambda x, w, b: torch.func.functional_call(norm, {"weight": w, "bias": b}, x),
                                        (x, norm.weight, norm.bias))  # fmt: skip


def test_equal_pictures_are_normalised_to_the_bias():
    norm = norm_of(2)
    y = norm(torch.full((4, 2, 3, 3), 7.0).double())
    torch.testing.assert_close(y, norm.bias[:, None, None].expand_as(y))


def test_statistics_of_half_precision_are_those_of_float32():
    norm = norm_of(3).float()
    x = (torch.randn(64, 3, 4, 4) + 100).bfloat16()
    assert norm(x).dtype == torch.bfloat16
    torch.testing.assert_close(norm.running_mean, 0.1 * x.float().mean((0, 2, 3)))


def test_a_batch_passes_without_being_counted():
    class Other(nn.BatchNorm1d):
        pass

    model = nn.Sequential(norm_of(3), nn.Flatten(), Other(12).double())
    before = {name: tensor.clone() for name, tensor in model.named_buffers()}
    x = torch.randn(5, 3, 2, 2).double()
    with leaving_statistics(model):
        uncounted = model(x)
    assert {name for name, tensor in model.named_buffers() if not torch.equal(tensor, before[name])} == set()
    assert torch.equal(model(x), uncounted)
    changed = {name for name, tensor in model.named_buffers() if not torch.equal(tensor, before[name])}
    assert changed == set(before)
    assert len(batch_norms(model)) == 2


def test_statistics_are_left_also_when_a_pass_fails():
    norm = norm_of(3)

    def failing(_: Tensor) -> Tensor:
        raise RuntimeError("a rank is gone")

    norm.total = failing
    with pytest.raises(RuntimeError, match="gone"), leaving_statistics(norm):
        norm(torch.randn(2, 3, 2, 2).double())
    assert norm.momentum == 0.1
    assert norm.num_batches_tracked == 0
