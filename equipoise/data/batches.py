"""Records to batches: pick, draw one caption, crop, tokenize. Batch k is a pure function of the seed and k.

So it does not matter who makes it: this process, another one, or a process that makes a part of it (`share`). Crops of
records travel as 8-bit pixels and are normalised on the device where they are used.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from copy import copy
from dataclasses import dataclass, field, replace
from functools import partial

import torch
from torch import Tensor

from equipoise.data.augment import Augment, Draws
from equipoise.data.bad_records import EpochCount, Fault
from equipoise.data.class_prompts import ClassPrompts
from equipoise.data.crops import Crops, cut_crops
from equipoise.data.drawn_captions import DrawnCaptions
from equipoise.data.keep.weights import pair_weights
from equipoise.data.moved import moved
from equipoise.data.moved_batch import moved_batch
from equipoise.data.prefetch import prefetch
from equipoise.data.preprocess import Preprocess, crop_draws
from equipoise.data.rng import generator
from equipoise.data.sample_views import WordChances, possible_views, with_changed, with_hidden, with_other
from equipoise.data.sampling import EpochSampler
from equipoise.data.side_data import side_data, tag_data
from equipoise.data.source import (
    CLASS_PROMPTS,
    IMAGE_PARTNER,
    IMAGE_VIEW2,
    MASKED_TEXT,
    OTHER_CAPTION,
    Pair,
    Source,
    can_crop,
    is_labelled,
    makes_batches,
)
from equipoise.data.tokenizer import CaptionTokenizer
from equipoise.types import Batch, UserError

CROP = "crop"  # the first view of a picture, beside `IMAGE_VIEW2`
PICTURES = (IMAGE_VIEW2, IMAGE_PARTNER)
NAMED = 5  # bad records that are named while training; all of them are counted


@dataclass(frozen=True)
class LoaderBatch:
    """A batch as it leaves the loader, before it is moved to the device and normalised."""

    batch: Batch  # images still uint8 where the source cut them, and without what is common to all
    position: int
    faults: tuple[Fault, ...] = ()  # of records that were replaced by others
    shortened: int = 0  # captions longer than the context
    looks: Mapping[str, Draws | None] = field(default_factory=dict)  # how the crop, and its further view, are augmented


class Batches:
    """Batches of a source. `share` = (part, parts) makes a contiguous part of each, for one of several processes;
    `views` are made of each sample besides (`sample_views.py`); of the first `plain` batches the first view is as in
    evaluation (files: to the whole pixel), neither cropped at random nor augmented."""

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
        plain: int = 0,
    ):
        self.source, self.tokens, self.preprocess, self.augment = source, tokens, preprocess, augment
        self.order = EpochSampler(len(source), batch_size, seed)
        self.seed, self.device, self.plain = seed, torch.device(device), plain
        self.workers, self.timeout = workers, timeout
        self.waited = 0.0  # seconds for batches that were not made yet
        self.bad = EpochCount(source.max_bad if can_crop(source) else 0.0, len(source), self.order.batches_per_epoch)
        self.named: list[str] = []  # places of bad records
        self.part = _part(batch_size, *share)
        self.views = possible_views(views, source)
        self.prompts: ClassPrompts | None = None
        if CLASS_PROMPTS in self.views and is_labelled(source):
            self.prompts = ClassPrompts(source, tokens, seed)
        if augment.wanted and makes_batches(source):
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
        make = partial(self._counted, device="cpu") if workers else partial(self._apart()._counted, device=self.device)
        with closing(prefetch(make, position, workers, self.timeout)) as stream:
            for made in self._timed(stream):
                self.tokens.truncated += made.shortened
                yield self._received(made)

    def _timed(self, stream: Iterator[LoaderBatch]) -> Iterator[LoaderBatch]:
        while True:
            start = time.monotonic()
            made = next(stream, None)
            self.waited += time.monotonic() - start
            if made is None:
                return
            yield made

    def make(self, position: int, device: torch.device | str) -> LoaderBatch:
        """The batch, on `device` or on the CPU; nothing is counted yet."""
        whole = self.order.batch(position)
        indices = whole[self.part]
        draws = torch.rand(len(whole), generator=generator(self.seed, "caption", position)).tolist()
        if makes_batches(self.source):
            return LoaderBatch(self.source.batch(indices, draws[self.part], self.tokens), position)
        drawn = DrawnCaptions(draws[self.part], self.tokens)
        names = [CROP, *([IMAGE_VIEW2] if IMAGE_VIEW2 in self.views else [])]
        chances = [self._chances(name, position, len(whole)) for name in names]
        crops = self._crops(indices, chances, device, drawn)
        pairs = crops.pairs or [self.source.pair(index) for index in crops.indices]
        captions = [drawn.of(place, pair) for place, pair in enumerate(pairs)]
        batch = self._assembled(crops, pairs, captions, drawn.draws)
        further = dict(zip(names[1:], crops.pixels[1:], strict=True)) | self._partners(whole, draws, position, device)
        batch = replace(batch, side={**batch.side, **further})
        batch = self._with_words(batch, captions, pairs, position)
        looks = {name: self._look(name, position, len(whole)) for name in names}
        looks[IMAGE_PARTNER] = self._look(CROP, position, len(whole), mirrored=True)
        return LoaderBatch(batch, position, crops.faults, looks=looks)

    def _partners(
        self, whole: list[int], draws: list[float], position: int, device: torch.device | str
    ) -> dict[str, Tensor]:
        """Crops of the batch in reverse order, cut as at their own places; of a batch that is made as a whole,
        `_received` reverses the crops themselves."""
        if IMAGE_PARTNER not in self.views or self._is_whole:
            return {}
        chances = self._chances(CROP, position, len(whole), mirrored=True)
        drawn = DrawnCaptions(draws[::-1][self.part], self.tokens)
        return {IMAGE_PARTNER: self._crops(whole[::-1][self.part], [chances], device, drawn).pixels[0]}

    @property
    def _is_whole(self) -> bool:
        return self.part == slice(0, self.order.batch_size)

    def _is_plain(self, name: str, position: int) -> bool:
        return name == CROP and position < self.plain

    def _chances(self, name: str, position: int, size: int, mirrored: bool = False) -> Tensor | None:
        """What decides the crops of a view; None where it is cut as in evaluation."""
        if self._is_plain(name, position):
            return None
        draws = crop_draws(size, generator(self.seed, name, position))
        return (draws.flip(0) if mirrored else draws)[self.part]

    def _look(self, name: str, position: int, size: int, mirrored: bool = False) -> Draws | None:
        if not self.augment.wanted or self._is_plain(name, position):
            return None
        draws = Draws.of(size, generator(self.seed, f"augment {name}", position))
        return (draws.backwards() if mirrored else draws).part(self.part)

    def _crops(
        self, indices: list[int], chances: Sequence[Tensor | None], device: torch.device | str, drawn: DrawnCaptions
    ) -> Crops:
        """A crop of each record for every set of chances."""
        size = self.preprocess.size
        if can_crop(self.source):
            boxes = [partial(self._boxes, chance) for chance in chances]
            return cut_crops(self.source, indices, size, boxes, drawn.faults)
        images = self.source.images(indices, size, device)
        sizes = torch.tensor(images.shape[-2:]).expand(len(indices), 2)
        every = range(len(indices))
        return Crops(
            indices, [self.preprocess.cropped(images, self._boxes(chance, every, sizes)) for chance in chances]
        )

    def _boxes(self, chance: Tensor | None, places: Sequence[int], sizes: Tensor) -> Tensor:
        if chance is None:
            return self.preprocess.evaluation_boxes(sizes)
        return self.preprocess.boxes(sizes, chance[list(places)])

    def _apart(self) -> Batches:
        """The same with a count of its own, for a thread that is ahead of what is used: only batches that were used may
        count, or a run that is resumed would count some twice."""
        apart = copy(self)
        apart.tokens = copy(self.tokens)
        return apart

    def _counted(self, position: int, device: torch.device | str) -> LoaderBatch:
        """Makes a batch where the count of shortened captions is not shared: in a worker, or in a thread `_apart`."""
        before = self.tokens.truncated
        made = self.make(position, device)
        return replace(made, shortened=self.tokens.truncated - before)

    def _assembled(self, crops: Crops, pairs: Sequence[Pair], captions: Sequence[str], draws: Sequence[float]) -> Batch:
        ids, mask = self.tokens(captions, [pair.key for pair in pairs])
        side = side_data(self.source, pairs, captions, crops.indices)
        side |= tag_data(self.source, pairs, crops.indices, self.tokens)
        side |= pair_weights(self.source, crops.indices, draws)
        return Batch(crops.pixels[0], ids, mask, torch.tensor(crops.indices), side)

    def _with_words(self, batch: Batch, captions: Sequence[str], pairs: Sequence[Pair], position: int) -> Batch:
        """The batch with the views of captions that are wanted."""
        chance = WordChances.of(self.views, self.order.batch_size, self.tokens, self.seed, position).part(self.part)
        if chance.changes and OTHER_CAPTION in self.views:
            batch = with_other(batch, captions, pairs, self.tokens, chance.changes)
        elif chance.changes:
            batch = with_changed(batch, captions, [pair.key for pair in pairs], self.tokens, chance.changes)
        if chance.hiding is None:
            return batch
        return with_hidden(batch, self.tokens, chance.hiding, beside=MASKED_TEXT in self.views)

    def _received(self, made: LoaderBatch) -> Batch:
        """The batch moved to the device, normalised and augmented, its bad records counted."""
        for fault in made.faults:
            self._name(fault)
        self.bad.add_batch(made.position, len(made.batch), made.faults)
        batch = moved_batch(made.batch, self.device)
        images = self._seen(batch.images, made, CROP)
        seen = {name: self._seen(batch.side[name], made, name) for name in PICTURES if name in batch.side}
        if IMAGE_PARTNER in self.views and self._is_whole:
            seen[IMAGE_PARTNER] = images.flip(0)
        prompts = self.prompts.at(made.position) if self.prompts else {}
        common = {name: moved(tensor, self.device) for name, tensor in prompts.items()}
        return replace(batch, images=images, side={**batch.side, **seen}, common=common)

    def _name(self, fault: Fault) -> None:
        """Warns of a bad record, the first few times."""
        if len(self.named) < NAMED and fault.place not in self.named:
            self.named.append(fault.place)
            more = "; further ones are counted in silence" if len(self.named) == NAMED else ""
            warnings.warn(f"skipped {fault}{more}", stacklevel=2)

    def _seen(self, images: Tensor, made: LoaderBatch, name: str) -> Tensor:
        """A crop as the encoder sees it: normalised and augmented."""
        images = self.preprocess.normalised(images) if images.dtype == torch.uint8 else images
        look = made.looks.get(name)
        return images if look is None else self.preprocess.redrawn(images, partial(self.augment, draws=look))


def _part(batch_size: int, part: int, parts: int) -> slice:
    if not 0 <= part < parts:
        raise UserError(f"a share is a part from 0 to {parts - 1} of {parts}, not part {part}")
    if batch_size % parts:
        raise UserError(f"batch_size {batch_size} cannot be shared among {parts} processes; use a multiple of {parts}")
    each = batch_size // parts
    return slice(part * each, (part + 1) * each)
