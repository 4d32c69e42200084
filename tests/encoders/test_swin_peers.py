"""Swin gives what timm's and transformers' second Swin give with the same random weights."""

from __future__ import annotations

import re

import pytest
import torch
from torch import nn

from equipoise.encoders import IMAGE_ENCODERS, Swin

SMALL = Swin.Config(patch=2, width=8, layers=(2, 3, 1), heads=(2, 4, 4), window=4)  # at 32 px 16, 8 and 4 places a side
ODD = Swin.Config(patch=4, width=12, layers=(2, 2), heads=(3, 6), window=7)  # at 56 px as Swin-B's last stages at 224
TIMM = {
    "patch_embed.proj": "patches",
    "patch_embed.norm": "ln_pre",
    r"^norm\b": "ln_post",
    "attn.": "attention.",
    "cpb_mlp.0": "position_bias.hidden",
    "cpb_mlp.2": "position_bias.to_heads",
    "logit_scale": "log_scale",
    "proj": "out",
    "norm1": "ln_1",
    "norm2": "ln_2",
    r"mlp\.fc1": "mlp_in",
    r"mlp\.fc2": "mlp_out",
    "reduction": "map",
}
TRANSFORMERS = {
    "embeddings.patch_embeddings.projection": "patches",
    "embeddings.norm": "ln_pre",
    "^layernorm": "ln_post",
    "attention.output.dense": "attention.out",
    "attention.self.": "attention.",
    "continuous_position_bias_mlp.0": "position_bias.hidden",
    "continuous_position_bias_mlp.2": "position_bias.to_heads",
    "logit_scale": "log_scale",
    "layernorm_before": "ln_1",
    "layernorm_after": "ln_2",
    "intermediate.dense": "mlp_in",
    "output.dense": "mlp_out",
    "reduction": "map",
    r"query\.bias": "q_bias",
    r"value\.bias": "v_bias",
}


def carry_over(peer: nn.Module, ours: Swin, names: dict[str, str], merges_after: int) -> None:
    """Random weights for the peer, and the same for ours. Merges belong to the stage before or to the one after."""
    with torch.no_grad():
        for parameter in peer.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    found = {_ours(name, names, ours.config.layers, merges_after): w for name, w in peer.state_dict().items()}
    found = {name: w.flatten() if name.endswith("log_scale") else w for name, w in found.items()}
    for query in [name for name in found if name.endswith("query.weight")]:
        three = [found.pop(query.replace("query", each)) for each in ("query", "key", "value")]
        found[query.replace("query", "qkv")] = torch.cat(three)
    ours.load_state_dict(found)


def _ours(name: str, names: dict[str, str], layers: tuple[int, ...], merges_after: int) -> str:
    def of_block(match: re.Match[str]) -> str:
        stage, number = int(match[1]), int(match[2])
        return f"parts.{sum(layers[:stage]) + stage + number}."

    def of_merge(match: re.Match[str]) -> str:
        stage = int(match[1]) + merges_after
        return f"parts.{sum(layers[:stage]) + stage - 1}."

    for theirs, mine in names.items():
        name = re.sub(theirs, mine, name)
    name = re.sub(r"^(?:encoder\.)?layers\.(\d+)\.blocks\.(\d+)\.", of_block, name)
    return re.sub(r"^(?:encoder\.)?layers\.(\d+)\.downsample\.", of_merge, name)


def timms(timm, config: Swin.Config, size: int) -> nn.Module:
    return timm.models.swin_transformer_v2.SwinTransformerV2(
        img_size=size, patch_size=config.patch, embed_dim=config.width, depths=config.layers, num_heads=config.heads,
        window_size=config.window, num_classes=0, drop_path_rate=0.0,
    )  # fmt: skip


def transformerss(transformers, config: Swin.Config, size: int) -> nn.Module:
    settings = transformers.Swinv2Config(
        image_size=size, patch_size=config.patch, embed_dim=config.width, depths=config.layers, num_heads=config.heads,
        window_size=config.window, drop_path_rate=0.0,
    )  # fmt: skip
    return transformers.Swinv2Model(settings)


@pytest.mark.parametrize(("config", "size"), [(ODD, 56), (IMAGE_ENCODERS["swin-nano"], 64)])
def test_features_are_timms(timm, config, size):
    torch.manual_seed(0)
    ours, peer = config.build(size).eval(), timms(timm, config, size).eval()
    carry_over(peer, ours, TIMM, merges_after=0)
    images = torch.randn(1, 3, size, size)
    with torch.no_grad():
        got, expected = ours(images), peer.forward_features(images)
        torch.testing.assert_close(got.tokens, expected.flatten(1, 2), rtol=0, atol=1e-5)
        torch.testing.assert_close(got.classes[:, 0], peer.forward_head(expected), rtol=0, atol=1e-5)


@pytest.mark.parametrize(("config", "size"), [(SMALL, 32), (SMALL, 16), (ODD, 56)])
def test_features_are_transformerss(transformers, config, size):
    torch.manual_seed(0)
    ours, peer = config.build(size).eval(), transformerss(transformers, config, size).eval()
    carry_over(peer, ours, TRANSFORMERS, merges_after=1)
    images = torch.randn(2, 3, size, size)
    with torch.no_grad():
        got, expected = ours(images), peer(images)
    torch.testing.assert_close(got.tokens, expected.last_hidden_state, rtol=0, atol=1e-5)
    torch.testing.assert_close(got.classes[:, 0], expected.pooler_output, rtol=0, atol=1e-5)


def test_gradients_are_timms(timm):
    torch.manual_seed(0)
    ours, peer = SMALL.build(32).train(), timms(timm, SMALL, 32).train()
    carry_over(peer, ours, TIMM, merges_after=0)
    ours, peer = ours.double(), peer.double()
    images = torch.randn(3, 3, 32, 32).double()
    ours(images).classes.square().sum().backward()
    peer(images).square().sum().backward()
    for mine, theirs in (
        (ours.patches.weight, peer.patch_embed.proj.weight),
        (ours.parts[1].attention.qkv.weight, peer.layers[0].blocks[1].attn.qkv.weight),
        (ours.parts[1].attention.log_scale, peer.layers[0].blocks[1].attn.logit_scale),
        (ours.parts[4].attention.position_bias.hidden.weight, peer.layers[1].blocks[1].attn.cpb_mlp[0].weight),
        (ours.parts[6].map.weight, peer.layers[2].downsample.reduction.weight),
    ):
        torch.testing.assert_close(mine.grad.flatten(), theirs.grad.flatten(), rtol=1e-6, atol=1e-8)
