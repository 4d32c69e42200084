"""CLIP's ResNet: open_clip's features, the pool against loops, options that change nothing, refusals."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from equipoise.encoders import IMAGE_ENCODERS, ResNet
from equipoise.encoders.attention_pool import AttentionPool
from equipoise.interop.open_clip.keys import from_open_clip
from equipoise.types import UserError


def small_resnet(**changes) -> ResNet:
    torch.manual_seed(0)
    tower = ResNet.Config(**{"layers": (1, 2, 1, 1), "width": 4, "heads": 4} | changes).build(64)
    for block in tower.blocks():
        nn.init.normal_(block.bn3.weight)  # zero at first, which would hide the convolutions
    return tower


def pooled_by_hand(pool: AttentionPool, tokens: Tensor, positions: Tensor, norm: nn.Module, heads: int) -> Tensor:
    """One sample's tokens [L, w]; every head and every token in a loop."""
    x = norm(torch.cat([tokens.mean(0, keepdim=True), tokens]) + positions)
    q, k, v = (x @ pool.attention.qkv.weight.T + pool.attention.qkv.bias).chunk(3, dim=-1)
    width = x.shape[-1] // heads
    out = []
    for head in range(heads):
        part = slice(head * width, (head + 1) * width)
        scores = torch.stack([q[0, part] @ row[part] / math.sqrt(width) for row in k])
        shares = scores.exp() / scores.exp().sum()
        out.append(sum(share * row[part] for share, row in zip(shares, v, strict=True)))
    return torch.cat(out)


@pytest.mark.slow
def test_resnet_50_equals_open_clips(open_clip):
    """Random weights, biases and running statistics, carried over."""
    from open_clip.modified_resnet import ModifiedResNet

    torch.manual_seed(0)
    peer = ModifiedResNet([3, 4, 6, 3], 1024, 32, 224, 64).eval()
    with torch.no_grad():
        for tensor in (*peer.parameters(), *(b for name, b in peer.named_buffers() if name.endswith("_mean"))):
            tensor.add_(0.02 * torch.randn_like(tensor))
        for name, tensor in peer.named_buffers():
            if name.endswith("_var"):
                tensor.uniform_(0.5, 2)
    state = from_open_clip({f"visual.{name}": tensor for name, tensor in peer.state_dict().items()})
    projection, bias = state.pop("image_readout.projection"), state.pop("image_readout.bias")
    ours = IMAGE_ENCODERS["resnet-50"].build(224).eval()
    ours.load_state_dict({name.removeprefix("image_encoder."): tensor for name, tensor in state.items()})
    images = torch.randn(1, 3, 224, 224)
    with torch.no_grad():
        vectors, expected = ours(images, classes_only=True).classes[:, 0] @ projection + bias, peer(images)
        torch.testing.assert_close(vectors, expected, rtol=0, atol=1e-5)


def test_training_equals_open_clips(open_clip):
    """Batch statistics, running statistics and gradients, of a small one."""
    from open_clip.modified_resnet import ModifiedResNet

    torch.manual_seed(0)
    peer = ModifiedResNet([1, 2, 1, 1], 16, 4, 64, 4).double().train()
    ours = small_resnet().double().train()
    state = from_open_clip({f"visual.{name}": tensor for name, tensor in peer.state_dict().items()})
    projection, bias = state.pop("image_readout.projection"), state.pop("image_readout.bias")
    ours.load_state_dict({name.removeprefix("image_encoder."): tensor.clone() for name, tensor in state.items()})
    images = torch.randn(5, 3, 64, 64).double()
    peer(images).square().sum().backward()
    (ours(images).classes[:, 0] @ projection + bias).square().sum().backward()
    torch.testing.assert_close(ours.stem.conv1.weight.grad, peer.conv1.weight.grad)
    torch.testing.assert_close(
        ours.stages["layer2"][0].shortcut[1].weight.grad, peer.layer2[0].downsample[1].weight.grad
    )
    torch.testing.assert_close(ours.stages["layer4"][0].bn2.running_var, peer.layer4[0].bn2.running_var)


def test_the_pool_equals_its_formula():
    torch.manual_seed(0)
    pool = AttentionPool(9, 16, 4).double()
    nn.init.normal_(pool.attention.qkv.bias)
    norm = nn.LayerNorm(16).double()
    tokens = torch.randn(3, 9, 16).double()
    got = pool(tokens, classes_only=True).classes[:, 0]
    expected = [pooled_by_hand(pool, each, pool.positions, nn.Identity(), 4) for each in tokens]
    torch.testing.assert_close(got, torch.stack(expected), rtol=0, atol=1e-12)
    mask = torch.tensor([[True] * 9, [True] * 2 + [False] * 7, [False] * 3 + [True] + [False] * 5])
    got = pool.without_positions(tokens, mask, norm, classes_only=True).classes[:, 0]
    expected = [
        pooled_by_hand(pool, each[real], torch.zeros(()), norm, 4) for each, real in zip(tokens, mask, strict=True)
    ]
    torch.testing.assert_close(got, torch.stack(expected), rtol=0, atol=1e-12)


def test_features_have_the_shapes_of_a_grid_and_classes_alone_are_the_same():
    tower, images = small_resnet().eval(), torch.randn(2, 3, 64, 64)
    whole, classes = tower(images), tower(images, classes_only=True)
    assert (whole.classes.shape, whole.tokens.shape) == ((2, 1, 128), (2, 4, 128))
    assert whole.mask.shape == (2, 4)
    assert whole.mask.all()
    assert classes.tokens is None
    torch.testing.assert_close(classes.classes, whole.classes)
    tokens, mask = torch.randn(2, 3, 128), torch.tensor([[True, True, False], [True, False, False]])
    norm = tower.rear_norm()
    rear = tower.rear(tokens, mask, 0, norm)
    torch.testing.assert_close(tower.rear(tokens, mask, 0, norm, classes_only=True).classes, rear.classes)
    assert rear.tokens.shape == tokens.shape
    assert not rear.tokens[~mask].any()


def test_a_sample_without_tokens_stays_finite_and_so_do_its_gradients():
    tower, tokens = small_resnet(), torch.randn(2, 3, 128, requires_grad=True)
    mask = torch.tensor([[True, True, False], [False, False, False]])
    tower.rear(tokens, mask, 0, tower.rear_norm(), classes_only=True).classes.square().sum().backward()
    assert tokens.grad.isfinite().all()
    assert tokens.grad[0, :2].any(-1).all()
    assert not tokens.grad[0, 2].any()
    assert not tokens.grad[1].any()


def test_recomputing_activations_changes_no_gradient_and_counts_a_batch_once():
    images, found = torch.randn(4, 3, 64, 64), []
    for recompute in (False, True):
        tower = small_resnet().train()
        tower.recompute_activations(recompute)
        tower(images).classes.square().sum().backward()
        found.append(({n: p.grad for n, p in tower.named_parameters()}, dict(tower.named_buffers())))
    for plain, recomputed in zip(*found, strict=True):
        assert plain.keys() == recomputed.keys()
        assert [name for name in plain if not torch.equal(plain[name], recomputed[name])] == []


def test_the_size_is_clips():
    """38.3 million with the map to 1024, as open_clip counts RN50's visual tower; the bias of that map is not ours."""
    with torch.device("meta"):
        tower = IMAGE_ENCODERS["resnet-50"].build(224)
    assert sum(p.numel() for p in tower.parameters()) + 2048 * 1024 + 1024 == 38_316_896
    assert len(list(tower.blocks())) == 16


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: ResNet.Config().build(100), "images of 100 px cannot be halved five times; .* multiple of 32"),
        (lambda: ResNet.Config().build(64, classes=4), "attention pool gives one class token, but 4 are wanted"),
        (lambda: ResNet.Config(width=4, heads=3).build(64), "width 128 cannot be split into 3 heads"),
        (lambda: ResNet.Config(width=5), "width must be even"),
        (lambda: ResNet.Config(layers=(1, 0, 1, 1)), r"layers\[1\] must be larger than 0"),
        (lambda: small_resnet().check_rear(3), "attention pool alone, .* set regions.blocks to 0"),
    ],
)
def test_what_cannot_be_built_is_refused_with_a_sentence(make, sentence):
    with pytest.raises(UserError, match=sentence):
        make()
