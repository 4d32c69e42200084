"""Swin: windows against loops, published sizes and costs, every readout, options that change nothing, refusals."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from equipoise.analysis.cost import Stack, count_macs
from equipoise.encoders import IMAGE_ENCODERS, TEXT_ENCODERS, Swin
from equipoise.encoders.swin import SwinBlock
from equipoise.encoders.windows import WindowAttention, window_partition, window_reverse
from equipoise.models.region_branch import RegionBranch
from equipoise.training.optimizer import is_decayed
from equipoise.types import UserError

SMALL = Swin.Config(patch=2, width=8, layers=(2, 2), heads=(2, 4), window=4)  # at 16 px 8 × 8 and 4 × 4 places


def random_swin(config: Swin.Config = SMALL, size: int = 16) -> Swin:
    """With every parameter drawn: at the start blocks pass their input on, which would hide what is in them."""
    torch.manual_seed(0)
    tower = config.build(size)
    with torch.no_grad():
        for parameter in tower.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return tower


def attended_by_hand(attention: WindowAttention, x: Tensor, window: int, shift: int) -> Tensor:
    """One picture's places [S, S, w]; every place looks, in a loop, for those in its window, which starts anywhere:
    windows that stand over the edge are smaller there."""
    side, width = x.shape[0], x.shape[-1]
    d = width // attention.heads
    bias = torch.cat([attention.q_bias, torch.zeros(width).double(), attention.v_bias])
    q, k, v = (x @ attention.qkv.weight.T + bias).chunk(3, dim=-1)
    net, out = attention.position_bias, torch.zeros_like(x)

    def stretched(step: int) -> float:
        return math.copysign(math.log2(1 + 8 * abs(step) / (window - 1)) / 3, step)

    def number(at: int) -> int:
        return (at - shift) // window  # which window, along one side

    places = [(row, column) for row in range(side) for column in range(side)]
    for row, column in places:
        seen = [(r, c) for r, c in places if (number(r), number(c)) == (number(row), number(column))]
        for head in range(attention.heads):
            part = slice(head * d, (head + 1) * d)
            scores = []
            for r, c in seen:
                cosine = q[row, column, part] @ k[r, c, part] / q[row, column, part].norm() / k[r, c, part].norm()
                apart = torch.tensor([stretched(row - r), stretched(column - c)], dtype=torch.float64)
                hidden = (net.hidden.weight @ apart + net.hidden.bias).clamp(min=0)
                far = 16 / (1 + math.exp(-(net.to_heads.weight[head] @ hidden)))
                scores.append(cosine * min(attention.log_scale[head].exp(), 100) + far)
            shares = torch.stack(scores).softmax(0)
            out[row, column, part] = sum(share * v[r, c, part] for share, (r, c) in zip(shares, seen, strict=True))
    return out @ attention.out.weight.T + attention.out.bias


@pytest.mark.parametrize("shifted", [False, True])
@pytest.mark.parametrize(("side", "window"), [(6, 3), (8, 2), (3, 3)])
@torch.no_grad()
def test_a_block_equals_its_formula(side, window, shifted):
    torch.manual_seed(0)
    config = Swin.Config(width=8, layers=(2,), heads=(2,), window=window)
    block = SwinBlock(config, 8, 2, side, shifted).double()
    for parameter in block.parameters():
        parameter.normal_()
    block.attention.log_scale.copy_(torch.tensor([2.0, 5.0]))  # one below its bound, ln 100, and one above
    x = torch.randn(side, side, 8).double()
    shift = window // 2 if shifted and side > window else 0
    y = x + block.ln_1(attended_by_hand(block.attention, x, window, shift))
    expected = y + block.ln_2(block.mlp_out(nn.functional.gelu(block.mlp_in(y))))
    torch.testing.assert_close(block(x[None])[0], expected, rtol=0, atol=1e-12)


def test_gradients_are_those_of_finite_differences():
    """Of a shifted block, in all its parameters and its input."""
    torch.manual_seed(0)
    block = SwinBlock(Swin.Config(width=4, layers=(2,), heads=(2,), window=2), 4, 2, 4, shifted=True).double()
    names = [name for name, _ in block.named_parameters()]
    values = tuple(torch.randn_like(p, requires_grad=True) for p in block.parameters())

    def run(x: Tensor, *parameters: Tensor) -> Tensor:
        return torch.func.functional_call(block, dict(zip(names, parameters, strict=True)), (x,))

    x = torch.randn(1, 4, 4, 4).double().requires_grad_()
    assert torch.autograd.gradcheck(run, (x, *values), fast_mode=True)


def test_cutting_is_undone_by_joining_and_keeps_squares_together():
    x = torch.arange(36.0).view(1, 6, 6, 1)
    windows = window_partition(x, 3)
    assert windows[0, 1, :, 0].tolist() == [3, 4, 5, 9, 10, 11, 15, 16, 17]
    assert torch.equal(window_reverse(windows, 3), x)


def test_places_and_classes_have_their_shapes_and_classes_alone_are_the_same():
    tower = random_swin().eval()
    for n in (1, 3):
        images = torch.randn(n, 3, 16, 16)
        whole, classes = tower(images), tower(images, classes_only=True)
        assert (whole.classes.shape, whole.tokens.shape, whole.mask.shape) == ((n, 1, 16), (n, 16, 16), (n, 16))
        assert whole.mask.all()
        assert classes.tokens is None
        assert torch.equal(classes.classes, whole.classes)
        torch.testing.assert_close(whole.classes[:, 0], whole.tokens.mean(1))


def test_pictures_do_not_see_each_other():
    tower, images = random_swin().double().eval(), torch.randn(3, 3, 16, 16).double()
    alone = torch.cat([tower(each[None]).tokens for each in images])
    torch.testing.assert_close(tower(images).tokens, alone, rtol=0, atol=1e-12)


def test_shifted_windows_alone_carry_news_from_one_window_to_another():
    """A change in a corner reaches its own window, then those beside it, never the far side of the rolled picture."""
    tower, x = random_swin().double(), torch.randn(1, 8, 8, 8).double()
    changed = x.clone()
    changed[0, 0, 0] += 1
    plain, shifted = tower.parts[0], tower.parts[1]
    assert ((plain(x) - plain(changed)).abs().sum(-1)[0] > 0).nonzero().max() == 3
    assert ((shifted(x) - shifted(changed)).abs().sum(-1)[0] > 0).nonzero().max() == 1  # two are left of a cut window
    changed[0, 0, 0] -= 1
    changed[0, 3, 3] += 1
    reached = (shifted(x) - shifted(changed)).abs().sum(-1)[0] > 0
    assert (reached.nonzero().min(), reached.nonzero().max()) == (2, 5)


def test_recomputing_activations_changes_no_gradient():
    images, found = torch.randn(2, 3, 16, 16), []
    for recompute in (False, True):
        tower = random_swin().train()
        tower.recompute_activations(recompute)
        tower(images).classes.square().sum().backward()
        found.append({name: p.grad for name, p in tower.named_parameters()})
    assert [name for name in found[0] if not torch.equal(found[0][name], found[1][name])] == []


@pytest.mark.slow
def test_a_compiled_tower_is_one_graph_and_gives_the_same():
    tower, images = random_swin(replace(SMALL, layers=(2,), heads=(2,))).train(), torch.randn(2, 3, 16, 16)
    compiled = torch.compile(tower, backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(images).tokens, tower(images).tokens, rtol=0, atol=1e-5)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("half", [False, True])
def test_a_gpu_gives_the_same(half):
    """Windows of 49 places, whose rows no kernel likes."""
    tower = random_swin(Swin.Config(patch=4, width=32, layers=(2, 2), heads=(2, 4), window=7), 56).double()
    images = torch.randn(4, 3, 56, 56).double()
    exact = tower(images).tokens
    expected = torch.autograd.grad(exact.square().sum(), list(tower.parameters()))
    tower = tower.float().cuda()
    with torch.autocast("cuda", torch.bfloat16, enabled=half):
        got = tower(images.float().cuda()).tokens
    torch.testing.assert_close(got.double().cpu(), exact, rtol=0, atol=0.2 if half else 1e-3)
    found = torch.autograd.grad(got.float().square().sum(), list(tower.parameters()))
    for (name, _), grad, exactly in zip(tower.named_parameters(), found, expected, strict=True):
        off = (grad.double().cpu() - exactly).norm() / exactly.norm().clamp_min(1e-3)
        assert off < (0.2 if half else 1e-3), f"{name}: {off:.3g}"


def test_half_precision_stays_near():
    tower, images = random_swin(), torch.randn(4, 3, 16, 16)
    with torch.autocast("cpu", torch.bfloat16):
        got = tower(images).tokens
    torch.testing.assert_close(got.float(), tower(images).tokens, rtol=0, atol=0.1)


def test_at_the_start_blocks_pass_their_input_on():
    block, x = SMALL.build(16).parts[1], torch.randn(1, 8, 8, 8)
    assert torch.equal(block(x), x)


def test_decay_touches_maps_only():
    """As in the authors' code: neither the scale of the cosines nor the network of positions."""
    tower = SMALL.build(16)
    decayed = {name.partition(".1.")[2] for name, p in tower.named_parameters() if is_decayed(name, p)} - {""}
    assert decayed == {"attention.qkv.weight", "attention.out.weight", "mlp_in.weight", "mlp_out.weight"}


@pytest.mark.slow
def test_swin_b_has_the_published_size_and_cost():
    """Chen et al. 2023, Table 17: CLIP-Swin-B, both towers, 151M parameters and 18.4G multiply-adds."""
    with torch.device("meta"):
        image, text = IMAGE_ENCODERS["swin-b"].build(224), TEXT_ENCODERS["causal-b"].build(49_408, 77)
        maps = (image.width + text.width) * 512
        parameters = sum(p.numel() for tower in (image, text) for p in tower.parameters()) + maps
        macs = count_macs(image, torch.zeros(1, 3, 224, 224)) + count_macs(
            Stack(text.transformer), torch.zeros(1, 77, 512)
        )
    assert parameters / 1e6 == pytest.approx(151, abs=1)
    assert macs / 1e9 == pytest.approx(18.4, rel=0.02)
    assert image.width == 1024


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: Swin.Config().build(100), "images of 100 px .* halved 3 times; .* multiple of 32"),
        (lambda: Swin.Config().build(256), r"windows of 7 × 7 .* 64 × 64 .* set image.window to 8, .* multiple of 224"),
        (
            lambda: Swin.Config().build(224, classes=4),
            "mean over places gives one class token, but 4 are wanted",
        ),
        (lambda: Swin.Config(width=4, layers=(1,), heads=(3,)).build(28), "width 4 cannot be split into 3 heads"),
        (lambda: Swin.Config(layers=(2, 2)), "layers names 2 stages and heads 4; give one each"),
        (lambda: Swin.Config(layers=(), heads=()), "layers names 0 stages"),
        (lambda: Swin.Config(layers=(2, 0, 2, 2)), r"layers\[1\] must be larger than 0"),
        (lambda: Swin.Config(window=0), "window must be larger than 0"),
        (lambda: Swin.Config(activation="step").build(224), "activation must be one of"),
        (
            lambda: RegionBranch.Config(width=8).build(SMALL.build(16)),
            "Swin cannot read regions, a ViT or a ResNet can",
        ),
    ],
)
def test_what_cannot_be_built_is_refused_with_a_sentence(make, sentence):
    with pytest.raises(UserError, match=sentence):
        make()


@pytest.mark.parametrize("size", [32, 64, 96])
def test_the_small_one_takes_the_sizes_of_scenes(size):
    tower = IMAGE_ENCODERS["swin-nano"].build(size)
    assert tower(torch.randn(1, 3, size, size)).tokens.shape == (1, (size // 8) ** 2, 64)


def test_a_window_larger_than_the_picture_is_the_whole_of_it():
    config = Swin.Config(patch=8, width=8, layers=(2, 1), heads=(2, 2), window=12)
    for size, places in ((32, 4), (16, 1)):
        tower = config.build(size)
        assert [part.window for part in tower.parts if isinstance(part, SwinBlock)] == [size // 8] * 2 + [size // 16]
        assert tower(torch.randn(2, 3, size, size)).tokens.isfinite().all()
        assert tower(torch.randn(2, 3, size, size)).tokens.shape[1] == places
