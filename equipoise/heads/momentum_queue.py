"""Queues of the images and texts that the moving average of the weights saw last: more negatives than a batch has.

He et al. 2020, "Momentum Contrast for Unsupervised Visual Representation Learning" (MoCo), §3.2; Li et al. 2021
(ALBEF), §3.2: 65,536 of each.

Roles image_queue, text_queue [K, d] of former batches, without gradients (`Head.recall`): first in, first out, a batch
is compared first and enqueued after. The authors fill the queues with random points at the start, and each process
has its own points alone in front of them; here nothing is in a queue that was never an image or a text, so K grows
from 0 to its size, and all processes have the same queues of all their samples.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from equipoise.heads.head import Head, Sizes, TowerOutputs
from equipoise.settings.bounds import bounded
from equipoise.types import Embeddings


class MomentumQueue(Head):
    image_queue: Tensor  # [size, d]
    text_queue: Tensor
    place: Tensor  # index of the next entry
    filled: Tensor  # number of entries

    @dataclass(frozen=True)
    class Config:
        size: int = bounded(65_536, 1, 2**24)

        def build(self, sizes: Sizes) -> MomentumQueue:
            return MomentumQueue(self, sizes)

    def __init__(self, config: Config, sizes: Sizes):
        super().__init__()
        for name in ("image_queue", "text_queue"):
            self.register_buffer(name, torch.zeros(config.size, sizes.space.dim), persistent=False)
        for name in ("place", "filled"):
            self.register_buffer(name, torch.zeros((), dtype=torch.int64), persistent=False)

    def forward(self, outputs: TowerOutputs) -> dict[str, Tensor]:
        return {}

    def recall(self) -> dict[str, Tensor]:
        filled = int(self.filled)
        return {
            "image_queue": self.image_queue[:filled],
            "text_queue": self.text_queue[:filled],
        }  # views: not to be kept

    @torch.no_grad()
    def update_memory(self, embeddings: Embeddings) -> None:
        assert embeddings.momentum_image is not None
        assert embeddings.momentum_text is not None
        size = len(self.image_queue)
        images, texts = embeddings.momentum_image[-size:], embeddings.momentum_text[-size:]
        places = (self.place + torch.arange(len(images), device=images.device)) % size
        self.image_queue[places] = images.to(self.image_queue.dtype)
        self.text_queue[places] = texts.to(self.text_queue.dtype)
        self.place.add_(len(images)).remainder_(size)
        self.filled.add_(len(images)).clamp_(max=size)

    def memory(self) -> dict[str, Tensor]:
        names = ("image_queue", "text_queue", "place", "filled")
        return {name: getattr(self, name) for name in names}
