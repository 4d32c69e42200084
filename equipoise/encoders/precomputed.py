"""Precomputed features instead of an encoder, so that readouts, spaces and objectives train in seconds.

    vectors [N, w]      one class token each, which is the only token too
    tokens [N, L, w]    the first `classes` are class tokens; with none, their mean over real tokens is

A LayerNorm (Ba et al. 2016) puts features of any encoder on one scale, dropout keeps small sets from being learned by
heart (Srivastava et al. 2014); both before any readout. The norm has no weights of its own: a readout's would do their
work, and without them no gradient has to reach the features.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from equipoise.data.preprocess import Preprocess
from equipoise.data.tokenizer import CaptionTokenizer
from equipoise.encoders.encoder import Encoder, ImageEncoder, TextEncoder, mean_of_real
from equipoise.encoders.recomputation import Recompute
from equipoise.encoders.transformer import check_sizes
from equipoise.settings.bounds import bounded
from equipoise.types import Features, UserError


class Precomputed(Encoder):
    reads: ClassVar[str] = "features"
    kind: ClassVar[str]  # raw input that it cannot read, for error messages

    @dataclass(frozen=True)
    class Config:
        width: int = bounded(512, 1, 2**20)  # of the features
        dropout: float = 0.0  # of the features
        normalise: bool = True  # LayerNorm first
        classes: int = 0  # how many of the first tokens are class tokens

        def __post_init__(self) -> None:
            check_sizes(width=self.width)
            if not 0.0 <= self.dropout < 1.0:
                raise UserError(f"dropout must be in [0, 1), not {self.dropout}")
            if self.classes < 0:
                raise UserError(f"classes must be at least 0, not {self.classes}")

        def require(self, part: str, classes: int) -> None:
            """Raise UserError where a readout needs more class tokens than the features have."""
            if classes > 1 and self.classes != classes:
                raise UserError(
                    f"{classes} class tokens are wanted of precomputed features, but {part}.classes is {self.classes}; "
                    f"give features [N, L, w] whose first {classes} tokens are class tokens and set {part}.classes, "
                    "or set readout.name to class_token"
                )

    def __init__(self, config: Config):
        super().__init__()
        self.config, self.width = config, config.width
        self.norm = nn.LayerNorm(config.width, elementwise_affine=False) if config.normalise else nn.Identity()
        self.dropout = nn.Dropout(config.dropout)

    def recompute_activations(self, wanted: Recompute) -> None:
        """Do nothing: there are no activations to recompute."""

    def forward(self, features: Tensor, mask: Tensor | None = None, classes_only: bool = False) -> Features:
        x = self.dropout(self.norm(features))
        if x.ndim == 2:
            only = torch.ones(len(x), 1, dtype=torch.bool, device=x.device)
            return Features(classes=x[:, None], tokens=x[:, None], mask=only, at_least=1)
        if mask is None:
            mask = torch.ones(x.shape[:2], dtype=torch.bool, device=x.device)
        count = self.config.classes
        if count:
            return Features(classes=x[:, :count], tokens=x[:, count:], mask=mask[:, count:])
        return Features(classes=mean_of_real(x, mask), tokens=x, mask=mask)

    def checked(self, features: Any) -> Tensor:
        """Features as `forward` reads them; raises UserError for other input."""
        if not isinstance(features, Tensor) or not features.is_floating_point():
            raise UserError(
                f"this model was trained on precomputed features and cannot read {self.kind}; compute their features "
                f"with the encoder that made the training features and give them as a tensor [N, {self.width}]"
            )
        if features.ndim not in (2, 3) or features.shape[-1] != self.width:
            raise UserError(
                f"features have the shape {list(features.shape)}; give [N, {self.width}] or [N, L, {self.width}]"
            )
        return features.float()


class PrecomputedImage(Precomputed, ImageEncoder):
    kind = "pictures"

    @dataclass(frozen=True)
    class Config(Precomputed.Config):
        def build(self, image_size: int, classes: int = 1) -> PrecomputedImage:
            self.require("image", classes)
            return PrecomputedImage(self)

    def prepare(self, images: Any, preprocess: Preprocess) -> Tensor:
        return self.checked(images)


class PrecomputedText(Precomputed, TextEncoder):
    kind = "words"

    @dataclass(frozen=True)
    class Config(Precomputed.Config):
        def build(self, vocabulary: int, context: int, classes: int = 1) -> PrecomputedText:
            self.require("text", classes)
            return PrecomputedText(self)

    def prepare(self, texts: Any, mask: Tensor | None, tokenizer: CaptionTokenizer) -> tuple[Tensor, Tensor]:
        features = self.checked(texts)
        if mask is None:
            mask = torch.ones(len(features), 1 if features.ndim == 2 else features.shape[1], dtype=torch.bool)
        return features, mask
