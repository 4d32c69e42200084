"""A model and a batch small enough for every test."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from equipoise.data.preprocess import Preprocess
from equipoise.data.source import (
    ANSWERS,
    CLASS_PROMPTS,
    CLASS_PROMPTS_MASK,
    CLASSES,
    HIDDEN,
    IMAGE_PARTNER,
    IMAGE_VIEW2,
    MASKED_TEXT,
    TEXT_VIEW2,
    TEXT_VIEW2_MASK,
)
from equipoise.encoders import ImageConfig, ResNet, Swin, TextTransformer, ViT
from equipoise.encoders.fusion import FusionEncoder
from equipoise.forms import Sigmoid
from equipoise.heads import CaptionHead, HeadConfig
from equipoise.kernels import Scoring
from equipoise.models.logit_scale import LogitScale
from equipoise.models.model import Model
from equipoise.models.prompts import Prompts
from equipoise.objectives import (
    ALBEF,
    CLIP,
    OBJECTIVES,
    SLIP,
    TCL,
    CoCa,
    DeCLIP,
    FewShot,
    M3Mix,
    Objective,
    SoftCLIP,
)  # fmt: skip
from equipoise.readouts import READOUTS, CodeBookReadout
from equipoise.spaces import ProductSphere, Space, Sphere
from equipoise.targets import GUIDES, Softened
from equipoise.types import Batch, Embeddings, Loss, StepInfo


class FortyWords:
    """Stands where a tokenizer does: the model needs only its size."""

    size, context = 40, 8


def small_multi() -> Model:
    """Multi(4, 4): four class tokens in both towers."""
    return small_model(ProductSphere(4, 4), readout="class_tokens")


def small_model(
    space: Space | None = None,
    temperature: LogitScale | None = None,
    readout: str = "class_token",
    bias: float | None = None,
    heads: Mapping[str, HeadConfig] | None = None,
    prompts: Prompts.Config | None = None,
    **vit: float,
) -> Model:
    image = ViT.Config(patch=8, width=16, layers=2, heads=2, **vit)
    return _model(image, 16, space, temperature, readout, bias, heads, prompts)


def small_resnet_model() -> Model:
    """Reads images of 32 pixels: the last stage has one place."""
    return _model(ResNet.Config(layers=(1, 1, 1, 1), width=2, heads=2), size=32)


def small_swin_model(space: Space | None = None, readout: str = "class_token") -> Model:
    """Two stages, of 4 × 4 and of 2 × 2 places; the second block's windows are shifted."""
    return _model(Swin.Config(patch=4, width=8, layers=(2, 1), heads=(2, 2), window=2), 16, space, readout=readout)


def _model(
    image: ImageConfig,
    size: int,
    space: Space | None = None,
    temperature: LogitScale | None = None,
    readout: str = "class_token",
    bias: float | None = None,
    heads: Mapping[str, HeadConfig] | None = None,
    prompts: Prompts.Config | None = None,
) -> Model:
    torch.manual_seed(0)
    model = Model(
        image=image,
        text=TextTransformer.Config(causal=readout == "class_token", width=16, layers=2 if prompts else 1, heads=2),
        readout=CodeBookReadout.Config(codes=24, scale=1.0) if readout == "code_book" else READOUTS[readout](),
        space=space or Sphere(16),
        temperature=temperature or LogitScale(),
        preprocess=Preprocess(size=size),
        tokens=FortyWords(),  # type: ignore[arg-type]
        bias=bias,
        heads=heads,
        prompts=prompts,
    )
    return model.double()  # so that rounding hides no mistake


def random_batch(n: int, seed: int = 1, size: int = 16) -> Batch:
    make = torch.Generator().manual_seed(seed)
    lengths = torch.randint(3, 9, (n, 1), generator=make)
    ids = torch.randint(1, 40, (n, 8), generator=make)
    images = torch.randn(n, 3, size, size, generator=make).double()
    places = torch.rand(n, 3, generator=make).double()
    places[: n // 2, 2] = 0  # as padding: `ragged` leaves it out
    index = torch.randperm(n, generator=make)
    mask = torch.arange(8) < lengths
    side = {"places": places, **_random_views(images, ids, mask, make)}
    common = _random_classes(make)
    side["label"] = common[CLASSES][torch.randint(4, (n,), generator=make)]  # nobody is of the fifth class
    return Batch(images, ids, mask, index, side, StepInfo(seed=7, step=seed, steps=3, epoch_steps=2), common)


def _random_classes(make: torch.Generator) -> dict[str, Tensor]:
    """Five classes with their prompts, as the data would say them."""
    prompts = torch.randint(1, 40, (5, 8), generator=make)
    mask = torch.arange(8) < torch.tensor([[3], [8], [5], [5], [4]])
    return {CLASS_PROMPTS: prompts, CLASS_PROMPTS_MASK: mask, CLASSES: torch.tensor([7, -3, 1 << 40, 0, 12])}


def _random_views(images: Tensor, ids: Tensor, mask: Tensor, make: torch.Generator) -> dict[str, Tensor]:
    """What the data would make for an objective that asks for views."""
    hidden = mask & (torch.rand(ids.shape, generator=make) < 0.3)
    hidden[:, 0] = False
    noise = torch.randn(images.shape, generator=make).double()
    view2 = {TEXT_VIEW2: ids.roll(1, 0), TEXT_VIEW2_MASK: mask.roll(1, 0), IMAGE_VIEW2: images + 0.3 * noise}
    view2 |= {IMAGE_PARTNER: images.flip(0)}
    masked = {MASKED_TEXT: torch.where(hidden, 39, ids)}
    return {**view2, **masked, HIDDEN: hidden, ANSWERS: torch.randint(1, 40, ids.shape, generator=make)}


def part_of(batch: Batch, rank: int, world: int) -> Batch:
    """A rank's share, cut to the width that it needs, as loaders make it."""
    each = len(batch) // world
    mine = batch.map(lambda tensor: tensor[rank * each : (rank + 1) * each])
    width, places = int(mine.mask.sum(1).max()), mine.side["places"]
    ragged = places[:, :2] if not places[:, 2].any() else places
    width2 = int(mine.side[TEXT_VIEW2_MASK].sum(1).max())
    narrow = {name: mine.side[name][:, :width] for name in (HIDDEN, ANSWERS, MASKED_TEXT)}
    narrow |= {name: mine.side[name][:, :width2] for name in (TEXT_VIEW2, TEXT_VIEW2_MASK)}
    side = {**mine.side, **narrow, "places": ragged}
    return replace(mine, tokens=mine.tokens[:, :width], mask=mine.mask[:, :width], side=side)


@dataclass(frozen=True)
class Numbered(Objective):
    """A loss that depends on everything an objective may ask of the whole batch."""

    impl: str = "eager"

    @property
    def needs(self) -> tuple[str, ...]:
        return ("image", "text", "pivots")

    def loss(self, embeddings: Embeddings, batch: Batch | None, scoring: Scoring) -> Loss:
        assert batch is not None
        assert len(batch.tokens) == len(batch.mask) == len(batch.index) == len(embeddings.image)
        weights = batch.index + batch.side["places"] @ torch.tensor([1.0, 2.0, 4.0]).double() + batch.mask.sum(1)
        follows = batch.index.argsort()  # who is compared with whom depends on all ranks
        space, t = scoring.space, torch.as_tensor(scoring.log_scale)
        scores = space.similarity(embeddings.image, embeddings.text[follows]).diagonal() * t
        classes = space.similarity(embeddings.image, embeddings.pivots).logsumexp(1)
        words = (batch.tokens * batch.mask).sum(1).double()
        total = ((scores + classes) * weights * words).mean() / 1000
        return Loss(total, {"numbered": total})


SMALL_FUSION = FusionEncoder.Config(layers=2, heads=2)
FURTHER = {
    "coca": CoCa(decoder=CaptionHead.Config(1, 2)),
    "numbered": Numbered,
    "momentum": CLIP(target=Softened(guide=GUIDES["momentum"])),
    "siglip": CLIP(form=Sigmoid(bias=-3.0, learned=True)),
    "slip": SLIP(hidden=12, width=6),
    "declip": DeCLIP(queue=40, width=12, bottleneck=6),
    "declip_without_norms": DeCLIP(queue=40, simsiam_weight=0.0),
    "albef": ALBEF(queue=256, fusion=SMALL_FUSION),
    "tcl": TCL(queue=256, fusion=SMALL_FUSION, local_side=2),
    # without the pairs that are drawn within a process
    "albef_unmatched": ALBEF(queue=256, fusion=SMALL_FUSION, match_weight=0.0, ramp=0.5),
    "tcl_unmatched": TCL(queue=256, fusion=SMALL_FUSION, match_weight=0.0, local_side=2),
    "tcl_contrasts": TCL(queue=256, match_weight=0.0, words_weight=0.0, local_side=2),
    "mixed": M3Mix(m2_weight=0.4, v_weight=0.3, l_weight=0.2, vl_weight=0.1, m2_alpha=(0.5, 2.0)),
    "few_shot": FewShot(m2_alpha=(0.5, 2.0)),
    "mixed_fixed": M3Mix(m2_weight=0.4, m2_scale_learned=False, reading="proof", original_negatives=False),
}


# objectives that read named modalities, which the models here have not
OF_MODALITIES = {"gmc", "gmc_m2", "modal_pairs", "supervised"}


def objective_named(name: str, impl: str = "eager") -> Objective:
    """An objective that asks no more of a model than images and texts."""
    chosen = {**OBJECTIVES, **FURTHER}[name]
    objective = chosen() if isinstance(chosen, type) else chosen
    own_guide = {"guide": GUIDES["image_text"]} if isinstance(objective, SoftCLIP) else {}
    impls = {"impl": impl} if hasattr(objective, "impl") else {}
    return replace(objective, **impls, **own_guide)  # type: ignore[type-var]
