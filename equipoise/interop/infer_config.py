"""Configs from weights alone: sizes from the shapes of tensors.

Two things no tensor says. The number of heads: CLIP's are 64 wide. The activation: OpenAI's weights, known by the
entries their files have beside the weights, were trained with QuickGELU; for other weights it must be given, for a
wrong guess gives vectors that look right and are not.
"""

from __future__ import annotations

import math
import re

from equipoise.interop.key_mapping import StateDict
from equipoise.interop.open_clip.keys import CLASS
from equipoise.interop.open_clip.names import HEAD
from equipoise.interop.strict_fields import Fields
from equipoise.types import UserError

OPENAI = ("input_resolution", "context_length", "vocab_size")


def is_openai(state: StateDict) -> bool:
    """Whether the file has the entries beside the weights that OpenAI's own have."""
    return all(key in state for key in OPENAI)


def inferred_config(state: StateDict, where: str) -> Fields:
    """The `model_cfg` that these tensors fit, without QuickGELU."""
    try:
        return _inferred(state)
    except KeyError as error:
        raise UserError(f"{where}: {error.args[0]} is missing, without which this is no CLIP") from None
    except (IndexError, ValueError, ZeroDivisionError):
        raise UserError(f"{where}: its tensors have not the shapes of a CLIP's; name the model with --model") from None


def _inferred(state: StateDict) -> Fields:
    words = state["ln_final.weight"].shape[0]
    text = {
        "context_length": state["positional_embedding"].shape[0],
        "vocab_size": state["token_embedding.weight"].shape[0],
        "width": words,
        "heads": max(1, words // HEAD),
        "layers": _count(state, r"^transformer\.resblocks\.(\d+)\."),
    }
    vision = _vit(state) if CLASS in state else _resnet(state)
    bias = {"init_logit_bias": float(state["logit_bias"])} if "logit_bias" in state else {}
    return {"embed_dim": state["text_projection"].shape[1], **bias, "vision_cfg": vision, "text_cfg": text}


def _vit(state: StateDict) -> Fields:
    width, _, _, patch = state["visual.conv1.weight"].shape
    grid = math.isqrt(state["visual.positional_embedding"].shape[0] - 1)
    layers = _count(state, r"^visual\.transformer\.resblocks\.(\d+)\.")
    return {"image_size": grid * patch, "layers": layers, "width": width, "patch_size": patch}


def _resnet(state: StateDict) -> Fields:
    grid = math.isqrt(state["visual.attnpool.positional_embedding"].shape[0] - 1)
    layers = [_count(state, rf"^visual\.layer{stage}\.(\d+)\.") for stage in range(1, 5)]
    width = state["visual.layer1.0.conv1.weight"].shape[0]
    return {"image_size": 32 * grid, "layers": layers, "width": width, "patch_size": None}


def _count(state: StateDict, pattern: str) -> int:
    numbers = [int(match[1]) for key in state if (match := re.match(pattern, key))]
    return max(numbers, default=-1) + 1
