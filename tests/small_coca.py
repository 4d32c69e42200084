"""A CoCa small enough for every test."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from equipoise.data.preprocess import Preprocess
from equipoise.encoders import CoCaImage, CoCaText
from equipoise.heads import CaptionHead, HeadConfig
from equipoise.models.logit_scale import LogitScale
from equipoise.models.model import Model
from equipoise.readouts import ClassToken
from equipoise.spaces import Sphere

IMAGE = CoCaImage.Config(8, 16, 2, 2, queries=5, pooled=12, pool_heads=2)
TEXT = CoCaText.Config(width=12, layers=2, heads=2)
DECODER = CaptionHead.Config(layers=2, heads=2)


class FortyWords:
    """Stands where a tokenizer does."""

    size, context, start, end, pad, mask_id = 40, 8, 38, 39, 0, None


def small_coca(
    image: Any = IMAGE,
    text: Any = TEXT,
    heads: Mapping[str, HeadConfig] | None = None,
    tokens: Any = None,
    seed: int = 0,
) -> Model:
    torch.manual_seed(seed)
    model = Model(
        image=image,
        text=text,
        readout=ClassToken.Config(),
        space=Sphere(16),
        temperature=LogitScale(),
        preprocess=Preprocess(size=16),
        tokens=tokens or FortyWords(),
        heads={"caption": DECODER} if heads is None else heads,
    )
    return model.double()  # so that rounding hides no mistake
