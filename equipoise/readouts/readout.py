"""What every readout answers: how many class tokens it wants of an encoder, and how their features become a vector."""

from __future__ import annotations

from typing import ClassVar, Protocol

from torch import nn

from equipoise.spaces import Space


class Readout(nn.Module):
    """Features to vectors [N, d], which the space projects."""

    reads_tokens: ClassVar[bool] = False  # classes alone, which saves the encoders work


class ReadoutConfig(Protocol):
    """The settings of a readout."""

    def class_tokens(self, space: Space) -> int:
        """How many class tokens each tower is to have."""

    def build(self, width: int, space: Space) -> Readout:
        """For features of `width` numbers."""
