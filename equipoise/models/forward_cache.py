"""A batch as the towers read it: every view once, whichever roles and heads ask for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from equipoise.data.source import IMAGE_MASK, IMAGE_MIXED, IMAGE_VIEW2, TEXT_VIEW2, TEXT_VIEW2_MASK
from equipoise.types import Batch, Features, UserError

if TYPE_CHECKING:
    from equipoise.models.model import Model

TOWER_OF = {"image": "image", IMAGE_VIEW2: "image", IMAGE_MIXED: "image", "text": "text", TEXT_VIEW2: "text"}


class ForwardCache:
    """`tokens` names the towers whose patches or words are read beside class tokens."""

    def __init__(self, model: Model, batch: Batch, tokens: frozenset[str]):
        self.model, self.batch, self.tokens = model, batch, tokens
        self._features: dict[str, Features] = {}
        self._vectors: dict[str, Tensor] = {}
        self._points: dict[str, Tensor] = {}

    def features(self, view: str) -> Features:
        if view not in self._features:
            tower = TOWER_OF[view]
            encoder = self.model.image_encoder if tower == "image" else self.model.text_encoder
            self._features[view] = encoder(*self._input(view), classes_only=tower not in self.tokens)
        return self._features[view]

    def vectors(self, view: str) -> Tensor:
        if view not in self._vectors:
            readout = self.model.readout_of(TOWER_OF[view])
            self._vectors[view] = widened(readout(self.features(view), self.model.shared))
        return self._vectors[view]

    def points(self, view: str) -> Tensor:
        if view not in self._points:
            self._points[view] = self.model.place(TOWER_OF[view], self.vectors(view))
        return self._points[view]

    def side(self, name: str) -> Tensor:
        if name not in self.batch.side:
            raise UserError(
                f"the objective looks at {name}, which the batch does not hold; make it with "
                "Batches(..., views=objective.views)"
            )
        return self.batch.side[name]

    def _input(self, view: str) -> tuple[Tensor, ...]:
        batch = self.batch
        if view == "image":
            return (batch.images, *((batch.side[IMAGE_MASK],) if IMAGE_MASK in batch.side else ()))
        if view == "text":
            return batch.tokens, batch.mask
        return (self.side(view),) if TOWER_OF[view] == "image" else (self.side(view), self.side(TEXT_VIEW2_MASK))


def widened(vectors: Tensor) -> Tensor:
    """Points are kept in float32 at least."""
    return vectors.float() if vectors.dtype in {torch.bfloat16, torch.float16} else vectors
