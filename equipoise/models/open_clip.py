"""Names of a plain CLIP's tensors: open_clip's (and OpenAI's) to ours, for its ViTs and its ResNets.

No number is changed but one bias of a ResNet. Its attention pool ends in class @ W + b, our readout in class @ W. The
weights of attention sum to one, so the bias of the values passes it as it is: b goes there, as the smallest x with
x @ W = b. There is one where W has no more columns than rows, as in every ResNet of CLIP.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import torch
from torch import Tensor

from equipoise.types import UserError

Renames = tuple[tuple[str, str], ...]  # applied in order, each at most once to a name
_VIT: Renames = (
    (r"^visual\.conv1\.", "image_encoder.patches."),
    (r"^visual\.class_embedding$", "image_encoder.class_token"),
    (r"^visual\.positional_embedding$", "image_encoder.positions"),
    (r"^visual\.proj$", "image_readout.projection"),
    (r"^visual\.", "image_encoder."),
)
_RESNET: Renames = (
    (r"^visual\.(conv|bn)", r"image_encoder.stem.\1"),
    (r"^visual\.layer", "image_encoder.stages.layer"),
    (r"^visual\.attnpool\.positional_embedding$", "image_encoder.pool.positions"),
    (r"\.downsample\.1\.", ".shortcut.2."),  # theirs does not count the mean that comes first
    (r"\.downsample\.0\.", ".shortcut.1."),
)
_TEXT: Renames = (
    (r"^token_embedding\.", "text_encoder.words."),
    (r"^positional_embedding$", "text_encoder.positions"),
    (r"^text_projection$", "text_readout.projection"),
    (r"^(transformer|ln_final)\.", r"text_encoder.\1."),
    (r"\.resblocks\.", ".blocks."),
    (r"\.attn\.in_proj_(weight|bias)$", r".attention.qkv.\1"),
    (r"\.attn\.out_proj\.", ".attention.out."),
    (r"\.mlp\.c_fc\.", ".mlp_in."),
    (r"\.mlp\.c_proj\.", ".mlp_out."),
)
_NOT_WEIGHTS = {"attn_mask", "input_resolution", "context_length", "vocab_size"}
_CLASS, _POOL = "visual.class_embedding", "visual.attnpool.{}_proj.{}"


def from_open_clip(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """A plain CLIP's state dict under our names."""
    weights = {name: tensor for name, tensor in state.items() if name not in _NOT_WEIGHTS}
    if "visual.conv1.weight" in state and _CLASS in state:
        weights[_CLASS] = weights[_CLASS].reshape(1, -1)
        return _renamed(weights, _VIT + _TEXT)
    if "visual.conv1.weight" in state and _POOL.format("c", "weight") in state:
        pool = {name: weights.pop(name) for name in _pool_names()}
        return _renamed(weights, _RESNET + _TEXT) | _pool(pool)
    raise UserError(
        "not the weights of a plain open_clip ViT or ResNet: visual.conv1.weight is missing, or there is neither "
        f"{_CLASS} nor {_POOL.format('c', 'weight')}"
    )


def _pool_names() -> list[str]:
    return [_POOL.format(part, kind) for kind in ("weight", "bias") for part in "qkvc"]


def _pool(theirs: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Queries, keys and values in one map; what follows them is the readout."""
    *qkv, outward, q_bias, k_bias, v_bias, after = (theirs[name] for name in _pool_names())
    if outward.shape[0] > outward.shape[1]:
        raise UserError(
            f"the attention pool's map widens from {outward.shape[1]} to {outward.shape[0]}, which no readout does"
        )
    through = torch.linalg.lstsq(outward.double(), after.double()[:, None]).solution[:, 0].to(v_bias.dtype)
    return {
        "image_encoder.pool.attention.qkv.weight": torch.cat(qkv),
        "image_encoder.pool.attention.qkv.bias": torch.cat([q_bias, k_bias, v_bias + through]),
        "image_readout.projection": outward.T.contiguous(),
    }


def _renamed(state: Mapping[str, Tensor], renames: Renames) -> dict[str, Tensor]:
    return {_ours(name, renames): tensor for name, tensor in state.items()}


def _ours(name: str, renames: Renames) -> str:
    for pattern, replacement in renames:
        name = re.sub(pattern, replacement, name, count=1)
    return name
