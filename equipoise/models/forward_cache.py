"""One batch passing the towers: each view is encoded once, however many roles and heads read it."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from equipoise.data.source import IMAGE_MASK, IMAGE_MIXED, IMAGE_VIEW2, MASKED_TEXT, TEXT_VIEW2, TEXT_VIEW2_MASK
from equipoise.models.tower import Tower
from equipoise.types import Batch, Features, Lengths, UserError

TOWER_OF = {
    **dict.fromkeys(("image", IMAGE_VIEW2, IMAGE_MIXED), "image"),
    **dict.fromkeys(("text", TEXT_VIEW2, MASKED_TEXT), "text"),
}


class ForwardCache:
    """Features, vectors and points of a batch by view. `with_tokens` names the towers whose patch or word features
    are needed beside the class tokens, `needs` the roles that are wanted, `log_scale` is t."""

    def __init__(
        self,
        towers: Mapping[str, Tower],
        batch: Batch,
        with_tokens: frozenset[str],
        needs: frozenset[str],
        log_scale: Tensor,
    ):
        self.towers, self.batch, self.with_tokens, self.needs, self.log_scale = (
            towers, batch, with_tokens, needs, log_scale,
        )  # fmt: skip
        self._features: dict[str, Features] = {}
        self._vectors: dict[str, Tensor] = {}
        self._points: dict[str, Tensor] = {}

    def features(self, view: str) -> Features:
        if view not in self._features:
            tower = self._tower(view)
            inputs, lengths = self._inputs(view), self._lengths(view)
            self._features[view] = tower.features(*inputs, with_tokens=tower.name in self.with_tokens, lengths=lengths)
        return self._features[view]

    def vectors(self, view: str) -> Tensor:
        if view not in self._vectors:
            self._vectors[view] = self._tower(view).vectors(self.features(view))
        return self._vectors[view]

    def points(self, view: str) -> Tensor:
        if view not in self._points:
            self._points[view] = self._tower(view).project(self.vectors(view))
        return self._points[view]

    def sequence(self, view: str) -> tuple[Tensor, Tensor]:
        return self._tower(view).sequence(self.features(view))

    def token_points(self, view: str) -> tuple[Tensor, Tensor]:
        return self._tower(view).token_points(self.features(view))

    def side(self, name: str) -> Tensor:
        if name not in self.batch.side:
            raise UserError(
                f"the objective looks at {name}, which the batch does not hold; make it with "
                "Batches(..., views=objective.views)"
            )
        return self.batch.side[name]

    def captions(self) -> tuple[Tensor, Tensor]:
        return self.batch.tokens, self.batch.mask

    def _tower(self, view: str) -> Tower:
        return self.towers[TOWER_OF[view]]

    def _lengths(self, view: str) -> Lengths | None:
        """Lengths of a view's texts, where they are known; of pictures None."""
        if TOWER_OF[view] == "image":
            return None
        return self.batch.lengths.get(TEXT_VIEW2_MASK if view == TEXT_VIEW2 else "mask")

    def _inputs(self, view: str) -> tuple[Tensor, ...]:
        batch = self.batch
        if view == "image":
            return (batch.images, *((batch.side[IMAGE_MASK],) if IMAGE_MASK in batch.side else ()))
        if view == "text":
            return batch.tokens, batch.mask
        if view == MASKED_TEXT:
            return self.side(view), batch.mask
        return (self.side(view),) if TOWER_OF[view] == "image" else (self.side(view), self.side(TEXT_VIEW2_MASK))
