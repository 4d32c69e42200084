"""The interface of heads: the roles that a head fills, and how.

A head reads the towers' outputs for a batch (`TowerOutputs`, each view computed once). It may store something of a
batch for the next ones (`update_memory`, `memory`), which is saved with the state of training and not with the model;
what the objective itself looks at of it are the roles of `recall`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

from torch import Tensor, nn

from equipoise.encoders.recomputation import Recompute
from equipoise.spaces import Space
from equipoise.types import Batch, Embeddings, Features


@dataclass(frozen=True)
class Sizes:
    """Sizes of the model that a head is built for."""

    space: Space
    image_width: int  # of the features, all class tokens together
    text_width: int  # of the features of a word
    vocabulary: int
    causal: bool = False  # whether a word's features depend on no later word
    classes: int = 1  # class tokens of each tower
    context: int = 0  # the most tokens of a text; 0 where that is not known


class TowerOutputs(Protocol):
    """Outputs of the towers for a batch, by view; views are image, image_view2, image_mixed, text, text_view2 and
    masked_text."""

    batch: Batch
    needs: frozenset[str]  # roles that are wanted: a head need make no others
    log_scale: Tensor  # t, without a gradient

    def features(self, view: str) -> Features: ...

    def vectors(self, view: str) -> Tensor:
        """Readout output [N, d], before the space projects it."""

    def points(self, view: str) -> Tensor: ...

    def sequence(self, view: str) -> tuple[Tensor, Tensor]:
        """Class tokens and patches or words [N, m + L, w], and which are real, bool [N, m + L]."""

    def token_points(self, view: str) -> tuple[Tensor, Tensor]:
        """The point of every patch or word by itself [N, L, d], and which are real, bool [N, L]."""

    def side(self, name: str) -> Tensor:
        """Entry `name` of the batch's side data."""

    def captions(self) -> tuple[Tensor, Tensor]:
        """Token ids of the captions [N, L], and which are real, bool [N, L]."""


class Head(nn.Module):
    """Base of all heads."""

    roles: ClassVar[tuple[str, ...]] = ()
    reads_tokens: ClassVar[tuple[str, ...]] = ()  # towers whose patch or word features it reads

    def forward(self, outputs: TowerOutputs) -> dict[str, Tensor]:
        """Tensors of its roles, one row per sample; those that are not wanted may be missing."""
        raise NotImplementedError

    def recompute_activations(self, wanted: Recompute) -> None:
        """Trade time for memory in training, where the head is deep enough for it."""

    def update_memory(self, embeddings: Embeddings) -> None:
        """Store what later batches need of this one; called once per batch, with the embeddings of all processes."""

    def clamp_(self) -> None:
        """Clamp parameters to their bounds in place; called after every optimizer step."""

    def recall(self) -> dict[str, Tensor]:
        """Roles of former batches that an objective may need (`types.RECALLED`), by name."""
        return {}

    def memory(self) -> dict[str, Tensor]:
        """Stored buffers by name, the same in every process."""
        return {}


class HeadConfig(Protocol):
    def build(self, sizes: Sizes) -> Head: ...
