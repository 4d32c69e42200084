"""The interface of readouts: how many class tokens an encoder must have, and how features become a vector.

`before_projection` gives the features that a readout rests on, for a linear probe or for training on them: class
tokens, or, where no class token is read (and so none is ever trained), the mean over real tokens.

Each tower has one. What both share (a code book) is a module of its own (`Shared`), which the model holds once and
passes to each.
"""

from __future__ import annotations

from typing import ClassVar, Protocol

import torch
from torch import Tensor, nn

from equipoise.ops.recording import is_recording
from equipoise.spaces import Space
from equipoise.types import Features, UserError

TOWERS = ("image", "text")


class Shared(nn.Module):
    """Parameters that the readouts of both towers share."""

    def facts(self) -> dict[str, float]:
        """Numbers of the last training batch for the log."""
        return {}


class Readout(nn.Module):
    """Base of all readouts: features to vectors [N, d], which the space projects."""

    reads_tokens: ClassVar[bool] = False  # False: class features suffice, which saves the encoders work
    reads_classes: ClassVar[bool] = True  # False: parameters for class tokens alone get no gradient

    def forward(self, features: Features, shared: Shared | None = None) -> Tensor:
        raise NotImplementedError

    def before_projection(self, features: Features) -> Tensor:
        """The features that this readout reads: class tokens [N, w], [N, m, w] where there are several; or the mean
        over real tokens [N, w], where it reads no class token."""
        if self.reads_classes:
            return class_features(features)
        tokens, mask = real_tokens(features, "this readout")
        real = mask[..., None].to(tokens.dtype)
        return (tokens * real).sum(1) / real.sum(1)


class ReadoutConfig(Protocol):
    """The settings of a readout."""

    def class_tokens(self, space: Space) -> int:
        """Number of class tokens per tower."""

    def build(self, width: int, space: Space, tower: str) -> Readout:
        """Build the readout of the `tower` "image" or "text", whose features are `width` wide."""

    def shared(self, space: Space) -> Shared | None:
        """Build what the readouts of both towers share, if anything."""


def class_features(features: Features) -> Tensor:
    """Class tokens [N, w], or [N, m, w] where there are several."""
    return features.classes[:, 0] if features.classes.shape[1] == 1 else features.classes


def real_tokens(features: Features, reader: str) -> tuple[Tensor, Tensor]:
    """Tokens [N, P, w] and their mask; raises UserError where a sample has no real token."""
    tokens, mask = features.tokens, features.mask
    if tokens is None:
        raise UserError(f"{reader} reads patches or words, but this encoder gives class tokens alone; change either")
    if mask is None:
        return tokens, torch.ones(tokens.shape[:2], dtype=torch.bool, device=tokens.device)
    if features.at_least or is_recording():  # known, or a first pass has looked
        return tokens, mask
    if torch.jit.is_tracing():  # a graph that is exported has operations of torch alone
        _require_tokens(mask, reader)
        return tokens, mask
    return tokens, _looked_at(mask, reader)


def _require_tokens(mask: Tensor, reader: str) -> None:
    found = mask.any(1) if mask.shape[1] else mask.new_zeros(len(mask))
    if not bool(found.all()):
        number = int(found.logical_not().nonzero()[0, 0])
        raise UserError(
            f"sample {number} of a batch has no tokens but padding, so {reader} has nothing to read; "
            "remove it from the data, or set readout.name to class_token"
        )


@torch.library.custom_op("equipoise::looked_at", mutates_args=())
def _looked_at(mask: Tensor, reader: str) -> Tensor:
    """The mask, of which every row has a token; one operation for torch.compile, which cannot ask."""
    _require_tokens(mask, reader)
    return mask.clone()


@_looked_at.register_fake
def _(mask: Tensor, _reader: str) -> Tensor:
    return torch.empty_like(mask)
