"""What every head answers: which roles it fills, and with what.

A head sees a batch as the towers read it (`Seen`), every view once, whoever asks. It may keep something of a batch for
the next ones (`remember`, `memory`), which is stored with the state of training and not with the model.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

from torch import Tensor, nn

from equipoise.spaces import Space
from equipoise.types import Embeddings, Features


@dataclass(frozen=True)
class Sizes:
    """What a head may have to know of the model it is built for."""

    space: Space
    image_width: int  # of the features, all class tokens together
    text_width: int  # of a word's features
    vocabulary: int


class Seen(Protocol):
    """A batch as the towers read it; views are image, image_view2, image_mixed, text, text_view2."""

    def features(self, view: str) -> Features: ...

    def vectors(self, view: str) -> Tensor:
        """What the readout makes of them [N, d], before the space projects it."""

    def points(self, view: str) -> Tensor: ...

    def side(self, name: str) -> Tensor:
        """Of the batch's side data."""


class Head(nn.Module):
    roles: ClassVar[tuple[str, ...]] = ()
    reads_tokens: ClassVar[tuple[str, ...]] = ()  # of which towers it reads patches or words

    def forward(self, seen: Seen) -> dict[str, Tensor]:
        """Its roles, one row a sample."""
        raise NotImplementedError

    def update_memory(self, embeddings: Embeddings) -> None:
        """What the next batches are to know of this one, which comes whole, from all processes. Once a batch."""

    def clamp_(self) -> None:
        """After an optimizer step: parameters beyond their bounds return to them, in place."""

    def memory(self) -> dict[str, Tensor]:
        """What was remembered: buffers by name, the same in every process."""
        return {}


class HeadConfig(Protocol):
    def build(self, sizes: Sizes) -> Head: ...
