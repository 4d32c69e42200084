"""Records to batches: pick, draw one caption, augment, tokenise. Batch k is a pure function of the seed and k.

So it does not matter who makes it: this process, another one, or a process that makes a part of it (`share`). What a
source cuts itself travels as 8-bit pixels and is normalised on the device where it is used.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial

import torch
from torch import Tensor

from equipoise.data.augment import Augment, Draws
from equipoise.data.bad_record_fallback import Cut, cut
from equipoise.data.bad_records import BadRecordCount, Fault
from equipoise.data.class_prompts import ClassPrompts
from equipoise.data.keep.weights import pair_weights
from equipoise.data.prefetch import prefetch
from equipoise.data.preprocess import Preprocess, crop_draws
from equipoise.data.sample_views import WordChances, possible_views, with_changed, with_hidden
from equipoise.data.sampling import EpochSampler, generator
from equipoise.data.side_data import side_data, tag_data
from equipoise.data.source import (
    CLASS_PROMPTS,
    IMAGE_PARTNER,
    IMAGE_VIEW2,
    BatchSource,
    CroppingSource,
    LabelledSource,
    Pair,
    Source,
)
from equipoise.data.tokenizer import CaptionTokenizer
from equipoise.types import Batch, UserError

CROP = "crop"  # the first view of a picture, beside `IMAGE_VIEW2`
PICTURES = (IMAGE_VIEW2, IMAGE_PARTNER)
TOLD = 5  # bad records that are named while training; all of them are counted


@dataclass(frozen=True)
class LoaderBatch:
    """A batch as its maker leaves it."""

    batch: Batch  # images still uint8 where the source cut them, and without what is common to all
    position: int
    faults: tuple[Fault, ...] = ()  # of records that others stand in for
    shortened: int = 0  # captions longer than the context
    looks: Mapping[str, Draws | None] = field(default_factory=dict)  # how the crop, and its further view, are augmented


class Batches:
    """Batches of a source. `share` = (part, parts) makes a contiguous part of each, for one of several processes;
    `views` are made of each sample besides (`sample_views.py`)."""

    def __init__(
        self,
        source: Source,
        tokens: CaptionTokenizer,
        preprocess: Preprocess,
        *,
        batch_size: int,
        seed: int,
        device: torch.device | str = "cpu",
        share: tuple[int, int] = (0, 1),
        workers: int = 0,
        timeout: float = 0.0,
        views: Sequence[str] = (),
        augment: Augment = Augment(),  # noqa: B008 (frozen)
    ):
        self.source, self.tokens, self.preprocess, self.augment = source, tokens, preprocess, augment
        self.order = EpochSampler(len(source), batch_size, seed)
        self.seed, self.device = seed, torch.device(device)
        self.workers, self.timeout = workers, timeout
        self.bad = BadRecordCount(source.max_bad if isinstance(source, CroppingSource) else 0.0)
        self.part = _part(batch_size, *share)
        self.views = possible_views(views, source)
        self.prompts: ClassPrompts | None = None
        if CLASS_PROMPTS in self.views and isinstance(source, LabelledSource):
            self.prompts = ClassPrompts(source, tokens, seed)
        if augment.wanted and isinstance(source, BatchSource):
            raise UserError(
                "augment changes pictures, but the data holds features; set flip, jitter, grey and blur of augment to 0"
            )

    def batch(self, position: int) -> Batch:
        return self._received(self.make(position, self.device))

    def __iter__(self) -> Iterator[Batch]:
        return self.starting_at(0)

    def starting_at(self, position: int, workers: int | None = None) -> Iterator[Batch]:
        """Batches without end from `position` on, made ahead by a thread or by `workers` processes."""
        workers = self.workers if workers is None else workers
        make = self._make_elsewhere if workers else self._make_here
        with closing(prefetch(make, position, workers, self.timeout)) as stream:
            for made in stream:
                self.tokens.truncated += made.shortened
                yield self._received(made)

    def make(self, position: int, device: torch.device | str) -> LoaderBatch:
        """The batch, on `device` or on the CPU; nothing is counted yet."""
        whole = self.order.batch(position)
        indices = whole[self.part]
        draws = torch.rand(len(whole), generator=generator(self.seed, "caption", position)).tolist()[self.part]
        if isinstance(self.source, BatchSource):
            return LoaderBatch(self.source.batch(indices, draws, self.tokens), position)
        names = [CROP, *([IMAGE_VIEW2] if IMAGE_VIEW2 in self.views else [])]
        chances = [crop_draws(len(whole), generator(self.seed, name, position))[self.part] for name in names]
        used, crops, faults = self._crops(indices, chances, device)
        batch = self._put_together(crops[0], used, draws)
        further = {name: crop for name, crop in zip(names[1:], crops[1:], strict=True)}
        further |= self._partners(whole, position, device)
        batch = self._with_words(replace(batch, side={**batch.side, **further}), draws, position)
        looks = {name: self._look(name, position, len(whole)) for name in names}
        looks[IMAGE_PARTNER] = self._look(CROP, position, len(whole), mirrored=True)
        return LoaderBatch(batch, position, faults, looks=looks)

    def _partners(self, whole: list[int], position: int, device: torch.device | str) -> dict[str, Tensor]:
        """Pictures of the batch read backwards, cut as they are at their own places; those of a batch that is here as a
        whole are here already (`_received`)."""
        if IMAGE_PARTNER not in self.views or self._all_here:
            return {}
        chances = crop_draws(len(whole), generator(self.seed, CROP, position)).flip(0)[self.part]
        return {IMAGE_PARTNER: self._crops(whole[::-1][self.part], [chances], device)[1][0]}

    @property
    def _all_here(self) -> bool:
        return self.part == slice(0, self.order.batch_size)

    def _look(self, name: str, position: int, size: int, mirrored: bool = False) -> Draws | None:
        if not self.augment.wanted:
            return None
        draws = Draws.of(size, generator(self.seed, f"augment {name}", position))
        return (draws.backwards() if mirrored else draws).part(self.part)

    def _crops(
        self, indices: list[int], chances: Sequence[Tensor], device: torch.device | str
    ) -> tuple[list[int], list[Tensor], tuple[Fault, ...]]:
        """The records that were used, a crop of each for every set of chances, and faults of those that were not."""
        if isinstance(self.source, CroppingSource):
            first = self._cut(indices, chances[0])
            further = [self._cut(first.indices, chance) for chance in chances[1:]]
            return first.indices, [found.pixels for found in (first, *further)], first.faults
        pixels = self.source.images(indices, self.preprocess.size, device)
        sizes = torch.tensor(pixels.shape[-2:]).expand(len(indices), 2)
        return (
            indices,
            [self.preprocess.cropped(pixels, self.preprocess.boxes(sizes, chance)) for chance in chances],
            (),
        )

    def _cut(self, indices: Sequence[int], chance: Tensor) -> Cut:
        assert isinstance(self.source, CroppingSource)
        boxes = lambda places, sizes: self.preprocess.boxes(sizes, chance[list(places)])  # noqa: E731
        return cut(self.source, indices, self.preprocess.size, boxes)

    def _make_here(self, position: int) -> LoaderBatch:
        return self.make(position, self.device)

    def _make_elsewhere(self, position: int) -> LoaderBatch:
        """In a process of its own, which neither has the device nor shares the count of shortened captions."""
        before = self.tokens.truncated
        made = self.make(position, "cpu")
        return replace(made, shortened=self.tokens.truncated - before)

    def _put_together(self, images: Tensor, indices: Sequence[int], draws: Sequence[float]) -> Batch:
        pairs = [self.source.pair(index) for index in indices]
        captions = [_drawn(pair, draw) for pair, draw in zip(pairs, draws, strict=True)]
        ids, mask = self.tokens(captions, [pair.key for pair in pairs])
        side = side_data(self.source, pairs, captions, indices)
        side |= tag_data(self.source, pairs, indices, self.tokens)
        side |= pair_weights(self.source, indices, draws)
        return Batch(images, ids, mask, torch.tensor(indices), side)

    def _with_words(self, batch: Batch, draws: Sequence[float], position: int) -> Batch:
        """With the views of captions that are asked for."""
        chance = WordChances.of(self.views, self.order.batch_size, self.tokens, self.seed, position).part(self.part)
        if chance.changes:
            pairs = [self.source.pair(index) for index in batch.index.tolist()]
            captions = [_drawn(pair, draw) for pair, draw in zip(pairs, draws, strict=True)]
            batch = with_changed(batch, captions, [pair.key for pair in pairs], self.tokens, chance.changes)
        return batch if chance.hiding is None else with_hidden(batch, self.tokens, chance.hiding)

    def _received(self, made: LoaderBatch) -> Batch:
        """Moved to the device, normalised, augmented, and its bad records counted."""
        told = len(self.bad.faults)
        for number, fault in enumerate(self.bad.add(len(made.batch), made.faults), start=told + 1):
            if number <= TOLD:
                more = "; further ones are counted in silence" if number == TOLD else ""
                warnings.warn(f"skipped {fault}{more}", stacklevel=2)
        batch = made.batch.map(lambda tensor: tensor.to(self.device))
        images = self._seen(batch.images, made, CROP)
        seen = {name: self._seen(batch.side[name], made, name) for name in PICTURES if name in batch.side}
        if IMAGE_PARTNER in self.views and self._all_here:
            seen[IMAGE_PARTNER] = images.flip(0)
        said = self.prompts.at(made.position) if self.prompts else {}
        common = {name: tensor.to(self.device) for name, tensor in said.items()}
        return replace(batch, images=images, side={**batch.side, **seen}, common=common)

    def _seen(self, images: Tensor, made: LoaderBatch, name: str) -> Tensor:
        """What the encoder sees of a crop."""
        images = self.preprocess.normalised(images) if images.dtype == torch.uint8 else images
        look = made.looks.get(name)
        return images if look is None else self.preprocess.redrawn(images, partial(self.augment, draws=look))


def _drawn(pair: Pair, draw: float) -> str:
    """One caption of the pair, drawn anew at every visit."""
    if not pair.captions:
        raise UserError(f"record {pair.key} has no caption; give it one or leave it out")
    return pair.captions[int(draw * len(pair.captions))]


def _part(batch_size: int, part: int, parts: int) -> slice:
    if not 0 <= part < parts:
        raise UserError(f"a share is a part from 0 to {parts - 1} of {parts}, not part {part}")
    if batch_size % parts:
        raise UserError(f"batch_size {batch_size} cannot be shared among {parts} processes; use a multiple of {parts}")
    each = batch_size // parts
    return slice(part * each, (part + 1) * each)
