"""The interface of readouts: how many class tokens an encoder must have, and how features become a vector.

Each tower has one. What both share (a code book) is a module of its own (`Shared`), which the model holds once and
passes to each.
"""

from __future__ import annotations

from typing import ClassVar, Protocol

from torch import Tensor, nn

from equipoise.spaces import Space
from equipoise.types import Features

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


class ReadoutConfig(Protocol):
    """The settings of a readout."""

    def class_tokens(self, space: Space) -> int:
        """Number of class tokens per tower."""

    def build(self, width: int, space: Space, tower: str) -> Readout:
        """Build the readout of the `tower` "image" or "text", whose features are `width` wide."""

    def shared(self, space: Space) -> Shared | None:
        """Build what the readouts of both towers share, if anything."""
