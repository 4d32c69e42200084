"""A model and a batch small enough for every test."""

from __future__ import annotations

import torch

from equipoise.data.images import Preprocess
from equipoise.encoders import TextTransformer, ViT
from equipoise.models.model import Model
from equipoise.models.temperature import Temperature
from equipoise.readouts import ClassToken
from equipoise.spaces import Space, Sphere
from equipoise.types import Batch


class FortyWords:
    """Stands where a tokeniser does: the model needs only its size."""

    size, context = 40, 8


def small_model(space: Space | None = None, temperature: Temperature | None = None, **vit: float) -> Model:
    torch.manual_seed(0)
    model = Model(
        image=ViT.Config(patch=8, width=16, layers=2, heads=2, **vit),
        text=TextTransformer.Config(width=16, layers=1, heads=2),
        readout=ClassToken.Config(),
        space=space or Sphere(16),
        temperature=temperature or Temperature(),
        preprocess=Preprocess(size=16),
        tokens=FortyWords(),  # type: ignore[arg-type]
    )
    return model.double()  # so that rounding hides no mistake


def random_batch(n: int, seed: int = 1) -> Batch:
    make = torch.Generator().manual_seed(seed)
    lengths = torch.randint(3, 9, (n, 1), generator=make)
    ids = torch.randint(1, 40, (n, 8), generator=make)
    images = torch.randn(n, 3, 16, 16, generator=make).double()
    return Batch(images, ids, torch.arange(8) < lengths, torch.arange(n))
