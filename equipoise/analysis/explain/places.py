"""Where the places of a picture and the tokens of a text stand in a tower: among the columns of its attention, and in
the last layer of features that still tells them apart.

    tower           attention's columns                 features for Grad-CAM, where class tokens are read
    vit             class tokens, patches, prompts      norm before the last block: behind it, only class tokens count
    resnet          mean, places (attention pool)       last bottleneck
    swin            none: it attends in windows         tokens whose mean is the class feature
    siglip image    patches                             tokens that the pool reads
    causal text     start, prompts, words, end          norm before the last block
    bert text       class tokens, prompts, words, end   the same

Where a readout reads tokens (code book, token set), those tokens are the features, in every tower.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from equipoise.encoders import ResNet, SiglipImage, SiglipText, Swin, TextTransformer, ViT
from equipoise.encoders.encoder import Encoder
from equipoise.types import UserError


@dataclass(frozen=True)
class Places:
    """Of L places; a text's are all its token ids, also start, end and padding."""

    first: int  # column of the place 0 in attention
    behind: int  # columns that come between the place 0 and the place 1
    attends: bool  # whether all places attend to each other, so that attention tells them apart
    layer: nn.Module | None  # whose output Grad-CAM reads; None: the tokens that the encoder gives
    layer_first: int = 0  # row of the place 0 in that layer's output, `behind` as above
    maps: bool = False  # whether that output is [N, w, S, S] instead of [N, L, w]
    tokens_first: int = 0  # row of the place 0 in the encoder's tokens; -1: it has none

    def columns(self, count: int) -> list[int]:
        return self._rows(self.first, count)

    def layer_rows(self, count: int) -> list[int]:
        return self._rows(self.layer_first, count)

    def _rows(self, first: int, count: int) -> list[int]:
        return [first + place + (self.behind if place else 0) for place in range(count)]


def image_places(encoder: Encoder) -> Places:
    if isinstance(encoder, ViT):
        return Places(encoder.classes, 0, True, _last_norm(encoder), encoder.classes)
    if isinstance(encoder, ResNet):
        return Places(1, 0, True, list(encoder.blocks())[-1], maps=True)
    if isinstance(encoder, Swin):
        return Places(0, 0, False, None)
    if isinstance(encoder, SiglipImage):
        return Places(0, 0, True, None)
    raise UserError(
        f"explanations know the towers vit, resnet, swin and siglip, but this model's pictures are read by "
        f"{type(encoder).__name__}; choose a model with one of those"
    )


def text_places(encoder: Encoder) -> Places:
    if isinstance(encoder, TextTransformer):
        prompts = len(encoder.prompts()[0]) if encoder.prompts else 0
        further = encoder.classes - 1
        tokens_first = 0 if encoder.config.causal else -1
        return Places(further, prompts, True, _last_norm(encoder), further, tokens_first=tokens_first)
    if isinstance(encoder, SiglipText):
        return Places(0, 0, True, _last_norm(encoder))
    raise UserError(
        f"explanations know the text towers causal, bert and siglip, but this model's texts are read by "
        f"{type(encoder).__name__}; choose a model with one of those"
    )


def _last_norm(encoder: ViT | TextTransformer | SiglipText) -> nn.Module:
    last = encoder.blocks()[-1].ln_1
    assert isinstance(last, nn.Module)
    return last
