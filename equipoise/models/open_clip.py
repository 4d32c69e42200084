"""Names of a plain CLIP's tensors: open_clip's (and OpenAI's) to ours. A rename only; no tensor is changed."""

from __future__ import annotations

import re
from collections.abc import Mapping

from torch import Tensor

from equipoise.types import UserError

# applied in order, each at most once to a name
_RENAMES: tuple[tuple[str, str], ...] = (
    (r"^visual\.conv1\.", "image_encoder.patches."),
    (r"^visual\.class_embedding$", "image_encoder.class_token"),
    (r"^visual\.positional_embedding$", "image_encoder.positions"),
    (r"^visual\.proj$", "image_readout.projection"),
    (r"^visual\.", "image_encoder."),
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


def from_open_clip(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """A plain ViT CLIP's state dict under our names."""
    if "visual.conv1.weight" not in state or "visual.class_embedding" not in state:
        raise UserError(
            "not the weights of a plain open_clip ViT: visual.conv1.weight or visual.class_embedding is missing"
        )
    renamed = {_ours(name): tensor for name, tensor in state.items() if name not in _NOT_WEIGHTS}
    token = "image_encoder.class_token"
    renamed[token] = renamed[token].reshape(1, -1)
    return renamed


def _ours(name: str) -> str:
    for pattern, replacement in _RENAMES:
        name = re.sub(pattern, replacement, name, count=1)
    return name
