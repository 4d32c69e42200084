"""Small models with words, and pairs to explain, in float64."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import torch
from torch import Tensor

from equipoise.data.preprocess import Preprocess
from equipoise.data.tokenizer import CaptionTokenizer
from equipoise.encoders import ImageConfig, ResNet, SiglipImage, SiglipText, Swin, TextConfig, TextTransformer, ViT
from equipoise.models.logit_scale import LogitScale
from equipoise.models.model import Model
from equipoise.models.prompts import Prompts
from equipoise.readouts import READOUTS, CodeBookReadout
from equipoise.spaces import Euclidean, ProductSphere, Space, Sphere, TokenSets

TEXTS = ["a red fish", "a small outlined blue star, and a green tree"]


@cache
def tokenizer(kind: str) -> CaptionTokenizer:
    config = CaptionTokenizer.Config(kind=kind, vocabulary=600, context=32)
    return CaptionTokenizer.train(TEXTS * 3, config)


def built(
    image: ImageConfig,
    size: int,
    readout: str = "class_token",
    space: Space | None = None,
    causal: bool = True,
    text: TextConfig | None = None,
    prompts: Prompts.Config | None = None,
) -> Model:
    torch.manual_seed(0)
    model = Model(
        image=image,
        text=text or TextTransformer.Config(causal=causal, width=16, layers=2, heads=2),
        readout=CodeBookReadout.Config(codes=24, scale=1.0) if readout == "code_book" else READOUTS[readout](),
        space=space or Sphere(16),
        temperature=LogitScale(),
        preprocess=Preprocess(size=size),
        tokens=tokenizer("bpe" if causal else "wordpiece"),
        prompts=prompts,
    )
    with torch.no_grad():  # blocks that start as nothing would explain nothing
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model.double().eval()


VIT = ViT.Config(patch=8, width=16, layers=2, heads=2)
MODELS: dict[str, Callable[[], Model]] = {
    "vit": lambda: built(VIT, 24),
    "multi": lambda: built(VIT, 24, "class_tokens", ProductSphere(4, 4), causal=False),
    "geodesic": lambda: built(VIT, 24, space=ProductSphere(4, 4, distance="geodesic")),
    "euclidean": lambda: built(VIT, 24, space=Euclidean(16)),
    "code_book": lambda: built(VIT, 24, "code_book", causal=False),
    "code_book_causal": lambda: built(VIT, 24, "code_book"),
    "filip": lambda: built(VIT, 24, "token_set", TokenSets(8, 32), causal=False),
    "resnet": lambda: built(ResNet.Config(layers=(1, 1, 1, 1), width=2, heads=2), 64),
    "swin": lambda: built(Swin.Config(patch=4, width=8, layers=(2, 1), heads=(2, 2), window=2), 16),
    "siglip": lambda: built(
        SiglipImage.Config(patch=8, width=16, layers=2, heads=2),
        24,
        text=SiglipText.Config(width=16, layers=2, heads=2),
    ),
    "prompted": lambda: built(VIT, 24, prompts=Prompts.Config(length=2, depth=2)),
}


def pictures(model: Model, count: int = 2) -> Tensor:
    size = model.preprocess.size
    return torch.randn(count, 3, size, size, generator=torch.Generator().manual_seed(1)).double()
