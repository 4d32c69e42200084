"""DeCLIP's terms of features: CLIP over two views of each side, and similar texts of a queue (`objectives/declip.py`).

`image_view2` and `text_view2` [N, d] are handed in by keyword. SimSiam and hidden words are not of features: they need
vectors before normalisation, words, and parameters of their own. The queue is no part of the state dict: it fills again
within its size in texts.
"""

from __future__ import annotations

from typing import Unpack

from torch import Tensor

from equipoise.heads import Sizes, TextQueue
from equipoise.losses.pair_loss import PairLoss, Settings
from equipoise.losses.space_by_name import space_for
from equipoise.objectives import DeCLIP
from equipoise.types import Embeddings


class DeCLIPLoss(PairLoss):
    def __init__(
        self,
        *,
        clip_weight: float = 0.4,
        nearest_weight: float = 0.2,
        queue: int = 65_536,
        second_text: bool = True,
        impl: str = "auto",
        **settings: Unpack[Settings],
    ):
        objective = DeCLIP(
            clip_weight=clip_weight,
            simsiam_weight=0.0,
            words_weight=0.0,
            nearest_weight=nearest_weight,
            text_views="eda" if second_text else "none",
            queue=queue,
            impl=impl,
        )
        super().__init__(objective, **settings)
        self.queue: TextQueue | None = None  # made for the first features, as wide as these and where they are
        self._queue = TextQueue.Config(queue, 1 + second_text)

    @property
    def made_roles(self) -> tuple[str, ...]:
        return tuple(role for role in self.objective.needs if role in TextQueue.roles)

    def make_roles(self, embeddings: Embeddings) -> dict[str, Tensor]:
        if self.queue is None:
            space = space_for(self.space, embeddings.image.shape[1])
            self.queue = self._queue.build(Sizes(space, 0, 0, 0)).to(embeddings.image.device)
        texts = zip(self.made_roles, (embeddings.text, embeddings.text_view2), strict=False)
        return {role: self.queue.closest(points) for role, points in texts if points is not None}

    def remember(self, embeddings: Embeddings) -> None:
        if self.queue is not None:
            self.queue.update_memory(embeddings)
