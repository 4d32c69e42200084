"""Encoders: from an image or a text to token features, by name. Sizes follow the CLIP and ViT papers; the small ones
learn on a CPU in minutes (few patches, narrow towers)."""

from __future__ import annotations

from typing import Protocol

from equipoise.encoders.coca_image import CoCaImage
from equipoise.encoders.coca_text import CoCaText
from equipoise.encoders.encoder import ImageEncoder, TextEncoder
from equipoise.encoders.precomputed import PrecomputedImage, PrecomputedText
from equipoise.encoders.resnet import ResNet
from equipoise.encoders.siglip_image import SiglipImage
from equipoise.encoders.siglip_text import SiglipText
from equipoise.encoders.swin import Swin
from equipoise.encoders.text import TextTransformer
from equipoise.encoders.timm_image import TimmImage
from equipoise.encoders.transformers_image import TransformersImage
from equipoise.encoders.transformers_text import TransformersText
from equipoise.encoders.vit import ViT


class ImageConfig(Protocol):
    """Settings of an image encoder with `classes` class tokens."""

    def build(self, image_size: int, classes: int = 1) -> ImageEncoder: ...


class TextConfig(Protocol):
    """Settings of a text encoder; class tokens are part of the context."""

    def build(self, vocabulary: int, context: int, classes: int = 1) -> TextEncoder: ...


IMAGE_ENCODERS: dict[str, ImageConfig | type[ImageConfig]] = {
    "vit-nano": ViT.Config(patch=8, width=64, layers=3, heads=2),
    "vit-micro": ViT.Config(patch=8, width=128, layers=4, heads=4),
    "vit-mini": ViT.Config(patch=8, width=256, layers=6, heads=8),
    "vit-s32": ViT.Config(patch=32, width=384, layers=12, heads=6),
    "vit-s16": ViT.Config(patch=16, width=384, layers=12, heads=6),
    "vit-b32": ViT.Config(patch=32, width=768, layers=12, heads=12),
    "vit-b16": ViT.Config(patch=16, width=768, layers=12, heads=12),
    "vit-l14": ViT.Config(patch=14, width=1024, layers=24, heads=16),
    "resnet-nano": ResNet.Config(layers=(1, 1, 1, 1), width=8, heads=4),
    "resnet-50": ResNet.Config(layers=(3, 4, 6, 3), width=64, heads=32),
    "swin-nano": Swin.Config(patch=4, width=32, layers=(2, 2), heads=(2, 4), window=4),
    "swin-t": Swin.Config(patch=4, width=96, layers=(2, 2, 6, 2), heads=(3, 6, 12, 24), window=7),
    "swin-b": Swin.Config(patch=4, width=128, layers=(2, 2, 18, 2), heads=(4, 8, 16, 32), window=7),
    "siglip-nano": SiglipImage.Config(patch=8, width=64, layers=3, heads=2),
    "siglip-b16": SiglipImage.Config(patch=16, width=768, layers=12, heads=12),
    "coca-nano": CoCaImage.Config(8, 64, 3, 2, queries=17, pooled=64, pool_heads=2),
    "coca-micro": CoCaImage.Config(8, 128, 4, 4, queries=33, pooled=128, pool_heads=4),
    "coca-b32": CoCaImage.Config(),
    "coca-l14": CoCaImage.Config(14, 1024, 24, 16, pooled=768),
    "precomputed": PrecomputedImage.Config,
    "timm": TimmImage.Config,
    "transformers": TransformersImage.Config,
}

TEXT_ENCODERS: dict[str, TextConfig | type[TextConfig]] = {
    "causal-nano": TextTransformer.Config(width=64, layers=2, heads=2),
    "causal-micro": TextTransformer.Config(width=128, layers=4, heads=4),
    "causal-mini": TextTransformer.Config(width=256, layers=6, heads=8),
    "causal-s": TextTransformer.Config(width=384, layers=12, heads=6),
    "causal-b": TextTransformer.Config(width=512, layers=12, heads=8),
    "causal-l": TextTransformer.Config(width=768, layers=12, heads=12),
    "bert-nano": TextTransformer.Config(causal=False, width=64, layers=2, heads=2),
    "bert-micro": TextTransformer.Config(causal=False, width=128, layers=4, heads=4),
    "bert-b": TextTransformer.Config(causal=False, width=512, layers=12, heads=8),
    "siglip-nano": SiglipText.Config(width=64, layers=2, heads=2),
    "siglip-b": SiglipText.Config(width=768, layers=12, heads=12),
    "coca-nano": CoCaText.Config(width=64, layers=2, heads=2),
    "coca-micro": CoCaText.Config(width=128, layers=4, heads=4),
    "coca-b": CoCaText.Config(),
    "coca-l": CoCaText.Config(width=768, heads=12),
    "precomputed": PrecomputedText.Config,
    "transformers": TransformersText.Config,
}

__all__ = [
    "IMAGE_ENCODERS",
    "TEXT_ENCODERS",
    "CoCaImage",
    "CoCaText",
    "ImageConfig",
    "ResNet",
    "SiglipImage",
    "SiglipText",
    "Swin",
    "TextConfig",
    "TextTransformer",
    "ViT",
]
