"""open_clip's names of plain CLIPs, each with the `model_cfg` that it has there.

A name with `-quickgelu` behind it is the same model with OpenAI's activation. A size in pixels behind the patch is that
of the images (ViT-L-14-336); `worldwide` are MetaCLIP's of many languages, with a tokenizer of their own.
"""

from __future__ import annotations

from typing import Any

from equipoise.interop.strict_fields import Fields
from equipoise.settings.layers import suggestion
from equipoise.types import UserError

HEAD = 64  # width of a head, where the config does not say
QUICK = "-quickgelu"
WORLD: Fields = {"hf_tokenizer_name": "facebook/xlm-v-base", "pool_type": "eos", "eos_id": 2, "vocab_size": 901629}
VIT_H: Fields = {"layers": 32, "width": 1280, "head_width": 80}
VIT_G: Fields = {"layers": 48, "width": 1664, "head_width": 104, "mlp_ratio": 4.9231}


def _clip(dim: int, size: int, vision: Fields, layers: int = 12, width: int = 0, **words: Any) -> Fields:
    """Settings of both towers; texts are `width` wide, or as wide as the embedding."""
    width = width or dim
    sizes = {"context_length": 77, "vocab_size": 49408, "width": width, "heads": width // HEAD, "layers": layers}
    return {"embed_dim": dim, "vision_cfg": {"image_size": size, **vision}, "text_cfg": {**sizes, **words}}


def _vit(layers: int, width: int, patch: int, **more: Any) -> Fields:
    return {"layers": layers, "width": width, "patch_size": patch, **more}


def _resnet(width: int, *layers: int) -> Fields:
    return {"layers": list(layers), "width": width, "patch_size": None}


NAMED: dict[str, Fields] = {
    "ViT-S-32": _clip(384, 224, _vit(12, 384, 32)),
    "ViT-S-16": _clip(384, 224, _vit(12, 384, 16)),
    "ViT-S-32-alt": _clip(256, 224, _vit(12, 384, 32), layers=10),
    "ViT-S-16-alt": _clip(256, 224, _vit(12, 384, 16), layers=10),
    "ViT-M-32": _clip(512, 224, _vit(12, 512, 32)),
    "ViT-M-16": _clip(512, 224, _vit(12, 512, 16)),
    "ViT-M-32-alt": _clip(384, 224, _vit(12, 512, 32)),
    "ViT-B-32": _clip(512, 224, _vit(12, 768, 32)),
    "ViT-B-32-256": _clip(512, 256, _vit(12, 768, 32)),
    "ViT-B-32-plus-256": _clip(640, 256, _vit(12, 896, 32)),
    "ViT-B-16": _clip(512, 224, _vit(12, 768, 16)),
    "ViT-B-16-plus": _clip(640, 224, _vit(12, 896, 16)),
    "ViT-B-16-plus-240": _clip(640, 240, _vit(12, 896, 16)),
    "ViT-L-16": _clip(768, 224, _vit(24, 1024, 16)),
    "ViT-L-16-320": _clip(768, 320, _vit(24, 1024, 16)),
    "ViT-L-14": _clip(768, 224, _vit(24, 1024, 14)),
    "ViT-L-14-280": _clip(768, 280, _vit(24, 1024, 14)),
    "ViT-L-14-336": _clip(768, 336, _vit(24, 1024, 14)),
    "ViT-H-16": _clip(1024, 224, {**VIT_H, "patch_size": 16}, layers=24),
    "ViT-H-14": _clip(1024, 224, {**VIT_H, "patch_size": 14}, layers=24),
    "ViT-H-14-378": _clip(1024, 378, {**VIT_H, "patch_size": 14}, layers=24),
    "ViT-H-14-worldwide": _clip(1024, 224, {**VIT_H, "patch_size": 14}, layers=24, **WORLD),
    "ViT-H-14-worldwide-378": _clip(1024, 378, {**VIT_H, "patch_size": 14}, layers=24, **WORLD),
    "ViT-g-14": _clip(1024, 224, _vit(40, 1408, 14, head_width=88, mlp_ratio=4.3637), layers=24),
    "ViT-bigG-14": _clip(1280, 224, {**VIT_G, "patch_size": 14}, layers=32),
    "ViT-bigG-14-worldwide": _clip(1280, 224, {**VIT_G, "patch_size": 14}, layers=32, **WORLD),
    "ViT-bigG-14-worldwide-378": _clip(1280, 378, {**VIT_G, "patch_size": 14}, layers=32, **WORLD),
    "ViT-e-14": _clip(1280, 224, _vit(56, 1792, 14, head_width=112, mlp_ratio=8.5715), layers=36),
    "RN50": _clip(1024, 224, _resnet(64, 3, 4, 6, 3), width=512),
    "RN101": _clip(512, 224, _resnet(64, 3, 4, 23, 3)),
    "RN50x4": _clip(640, 288, _resnet(80, 4, 6, 10, 6)),
    "RN50x16": _clip(768, 384, _resnet(96, 6, 8, 18, 8)),
    "RN50x64": _clip(1024, 448, _resnet(128, 3, 15, 36, 10)),
}


def named_config(name: str) -> Fields:
    """The `model_cfg` that open_clip has under this name."""
    base = name.removesuffix(QUICK)
    if base not in NAMED:
        raise UserError(
            f"--model {name} is unknown, {suggestion(base, list(NAMED))}; each name is also known with {QUICK}, and a "
            ".json file of open_clip's settings says any other sizes"
        )
    return {**NAMED[base], "quick_gelu": name.endswith(QUICK)}


def likely_name(config: Fields) -> str:
    """open_clip's name for a model of these sizes, or nothing."""
    return next((name for name in NAMED if _sizes(NAMED[name]) == _sizes(config)), "")


def _sizes(config: Fields) -> list[Any]:
    """What the shapes of tensors say of a config: neither the width of a head nor that of the MLPs."""
    vision = [config["vision_cfg"][name] for name in ("image_size", "layers", "width", "patch_size")]
    text = [config["text_cfg"][name] for name in ("width", "layers", "context_length", "vocab_size")]
    return [config["embed_dim"], *vision, *text]
