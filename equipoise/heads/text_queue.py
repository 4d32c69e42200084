"""A queue of recent texts, and the nearest neighbour in it of each text of a batch.

Li et al. 2022, "Supervision Exists Everywhere: A Data Efficient Contrastive Language-Image Pre-training Paradigm"
(DeCLIP), §3; Dwibedi et al. 2021, NNCLR, §3.2.

    nearest(v) = argmax_{q in queue} s(v, q)                 queue [65,536, d]: first in, first out

Roles text_nearest, text_view2_nearest [N, d], without gradients. A batch is looked up first and enqueued after, the
changed captions before the captions. The authors fill the queue with random points at the start, and each process has
one of its own, filled with its own texts; here nothing is looked up that was never a text (before the first batch each
text is its own neighbour), and all processes have the same queue of all their texts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from equipoise.heads.head import Head, Sizes, TowerOutputs
from equipoise.settings.bounds import bounded
from equipoise.types import Embeddings, UserError

VIEWS = ("text", "text_view2")  # those whose nearest the roles are, in their order
CHUNK = 256  # texts compared with the whole queue at once


class TextQueue(Head):
    roles: ClassVar[tuple[str, ...]] = ("text_nearest", "text_view2_nearest")
    queue: Tensor  # [size, d]
    place: Tensor  # index of the next entry
    filled: Tensor  # number of entries

    @dataclass(frozen=True)
    class Config:
        size: int = bounded(65_536, 1, 2**24)
        views: int = bounded(2, 1, 2)  # of a text: the caption alone, or a second one beside it

        def __post_init__(self) -> None:
            if self.size < 1:
                raise UserError(f"queue must be at least 1, not {self.size}")

        def build(self, sizes: Sizes) -> TextQueue:
            return TextQueue(self, sizes)

    def __init__(self, config: Config, sizes: Sizes):
        super().__init__()
        self.space = sizes.space
        self.roles = TextQueue.roles[: config.views]  # type: ignore[misc]
        self.register_buffer("queue", torch.zeros(config.size, sizes.space.dim), persistent=False)
        self.register_buffer("place", torch.zeros((), dtype=torch.int64), persistent=False)
        self.register_buffer("filled", torch.zeros((), dtype=torch.int64), persistent=False)

    def forward(self, outputs: TowerOutputs) -> dict[str, Tensor]:
        return {role: self.closest(outputs.points(view)) for role, view in zip(self.roles, VIEWS, strict=False)}

    @torch.no_grad()
    def closest(self, points: Tensor) -> Tensor:
        """Nearest entries of the queue [N, d]; the points themselves while it is empty."""
        entries = self.queue[: int(self.filled)]
        if not len(entries):
            return points.detach()
        with torch.autocast(points.device.type, enabled=False):
            nearest = [self.space.similarity(chunk.to(entries), entries).argmax(1) for chunk in points.split(CHUNK)]
        return entries[torch.cat(nearest)].to(points.dtype)

    @torch.no_grad()
    def update_memory(self, embeddings: Embeddings) -> None:
        size = len(self.queue)
        texts = [points for points in (embeddings.text_view2, embeddings.text) if points is not None]
        new = torch.cat(texts)[-size:]
        places = (self.place + torch.arange(len(new), device=new.device)) % size
        self.queue[places] = new.to(self.queue.dtype)
        self.place.add_(len(new)).remainder_(size)
        self.filled.add_(len(new)).clamp_(max=size)

    def memory(self) -> dict[str, Tensor]:
        return {"queue": self.queue, "place": self.place, "filled": self.filled}
