"""A model and a batch small enough for every test."""

from __future__ import annotations

from dataclasses import replace

import torch

from equipoise.data.images import Preprocess
from equipoise.encoders import TextTransformer, ViT
from equipoise.models.model import Model
from equipoise.models.temperature import Temperature
from equipoise.objectives import OBJECTIVES, Objective, SoftCLIP
from equipoise.readouts import ClassToken
from equipoise.spaces import Sphere
from equipoise.targets import GUIDES
from equipoise.types import Batch


class FortyWords:
    """Stands where a tokeniser does: the model needs only its size."""

    size, context = 40, 8


def small_model(**vit: float) -> Model:
    torch.manual_seed(0)
    model = Model(
        image=ViT.Config(patch=8, width=16, layers=2, heads=2, **vit),
        text=TextTransformer.Config(width=16, layers=1, heads=2),
        readout=ClassToken.Config(),
        space=Sphere(16),
        temperature=Temperature(),
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


def objective_named(name: str, impl: str = "eager") -> Objective:
    """An objective that asks no more of a model than images and texts."""
    chosen = OBJECTIVES[name]
    objective = chosen() if isinstance(chosen, type) else chosen
    own_guide = {"guide": GUIDES["image_text"]} if isinstance(objective, SoftCLIP) else {}
    return replace(objective, impl=impl, **own_guide)  # type: ignore[type-var]
