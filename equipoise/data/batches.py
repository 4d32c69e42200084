"""Records to batches: pick, draw one caption, augment, tokenise. Batch k is a pure function of the seed and k."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count

import torch

from equipoise.data.images import Preprocess
from equipoise.data.order import Order, generator
from equipoise.data.source import Pair, Source
from equipoise.data.tokens import Tokens
from equipoise.types import Batch, UserError


class Batches:
    def __init__(
        self,
        source: Source,
        tokens: Tokens,
        preprocess: Preprocess,
        *,
        batch_size: int,
        seed: int,
        device: torch.device | str = "cpu",
    ):
        self.source, self.tokens, self.preprocess = source, tokens, preprocess
        self.order = Order(len(source), batch_size, seed)
        self.seed, self.device = seed, torch.device(device)

    def batch(self, position: int) -> Batch:
        indices = self.order.batch(position)
        pairs = [self.source.pair(index) for index in indices]
        ids, mask = self.tokens(self._captions(pairs, position), [pair.key for pair in pairs])
        pixels = self.source.images(indices, self.preprocess.size, self.device)
        images = self.preprocess.for_training(pixels, generator(self.seed, "crop", position, device=self.device))
        return Batch(images, ids, mask, torch.tensor(indices)).map(lambda tensor: tensor.to(self.device))

    def _captions(self, pairs: list[Pair], position: int) -> list[str]:
        """One caption of each pair, drawn anew at every visit."""
        draws = torch.rand(len(pairs), generator=generator(self.seed, "caption", position)).tolist()
        for pair in pairs:
            if not pair.captions:
                raise UserError(f"record {pair.key} has no caption; give it one or leave it out")
        return [pair.captions[int(draw * len(pair.captions))] for pair, draw in zip(pairs, draws, strict=True)]

    def __iter__(self) -> Iterator[Batch]:
        return self.starting_at(0)

    def starting_at(self, position: int) -> Iterator[Batch]:
        """Batches without end from `position` on, each made while the one before is used."""
        with ThreadPoolExecutor(max_workers=1, thread_name_prefix="batches") as pool:
            following = pool.submit(self.batch, position)
            for later in count(position + 1):
                ready = following.result()
                following = pool.submit(self.batch, later)
                yield ready
