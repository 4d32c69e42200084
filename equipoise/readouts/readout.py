"""What every readout answers: how many class tokens it wants of an encoder, and how features become a vector.

There is one for each tower. What both look at together is a module of its own (`Shared`), which the model keeps once
and hands to each.
"""

from __future__ import annotations

from typing import ClassVar, Protocol

from torch import Tensor, nn

from equipoise.spaces import Space
from equipoise.types import Features

TOWERS = ("image", "text")


class Shared(nn.Module):
    """What the readouts of both towers share."""

    def facts(self) -> dict[str, float]:
        """What the log is to say of the last training batch."""
        return {}


class Readout(nn.Module):
    """Features to vectors [N, d], which the space projects."""

    reads_tokens: ClassVar[bool] = False  # classes alone, which saves the encoders work
    reads_classes: ClassVar[bool] = True  # else what encoders have for classes alone gets no gradient

    def forward(self, features: Features, shared: Shared | None = None) -> Tensor:
        raise NotImplementedError


class ReadoutConfig(Protocol):
    """The settings of a readout."""

    def class_tokens(self, space: Space) -> int:
        """How many class tokens each tower is to have."""

    def build(self, width: int, space: Space, tower: str) -> Readout:
        """For features of `width` numbers, made by the `tower` "image" or "text"."""

    def shared(self, space: Space) -> Shared | None:
        """What the readouts of both towers are to share."""
