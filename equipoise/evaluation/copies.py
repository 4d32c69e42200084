"""Copies among what is ranked: the same picture in several records, the same caption at several pictures.

No model can tell copies apart, so which comes first says nothing of it. With g(a) the number of a picture, equal
where pictures are, h(t) the number of a caption, equal where captions are, and o(t) the image that text t is labelled
with:

    t matches a   if some text t' with h(t') = h(t) is labelled with an image of the picture g(a) = g(o(t'))

Without copies these are the labelled pairs. A perfect model then scores 100%, however many copies there are.
Pictures are equal where their files (features: their vectors) are, byte by byte; captions where their words are,
whatever the case.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from equipoise.data.source import Source, has_digests, has_features, is_judged
from equipoise.evaluation.encoding import Captions

AT_ONCE = 1024  # rows of features


@dataclass(frozen=True)
class Copies:
    """Numbers of pictures [N] and of captions [M], equal where these are."""

    images: Tensor
    texts: Tensor

    def __bool__(self) -> bool:
        return any(len(numbers.unique()) < len(numbers) for numbers in (self.images, self.texts))

    def counted(self) -> tuple[int, int]:
        """How many pictures and captions are copies of an earlier one."""
        pictures, captions = (len(numbers) - len(numbers.unique()) for numbers in (self.images, self.texts))
        return pictures, captions


class Matches:
    """Which texts match which images, block by block: the labelled pairs, and with copies what these stand for."""

    def __init__(self, image_of_text: Tensor, images: int, copies: Copies | None = None):
        self.image_of_text, self.images = image_of_text, images
        self._copies = _Pairs(image_of_text, copies) if copies else None

    def block(self, rows: slice | Tensor, by_text: bool) -> Tensor:
        """Bool [rows, candidates]; rows, a slice or numbers, are texts, or images."""
        if self._copies:
            return self._copies.block(rows, by_text)
        numbers = torch.arange(self.images, device=self.image_of_text.device)
        return self.image_of_text[rows, None] == numbers if by_text else numbers[rows, None] == self.image_of_text

    def pairs(self, rows: slice, by_text: bool) -> tuple[Tensor, Tensor] | None:
        """Row, from 0 for the first, and candidate of every match in a block, without the block; None where there are
        copies, whose pairs may be very many."""
        if self._copies:
            return None
        start, stop, _ = rows.indices(len(self.image_of_text) if by_text else self.images)
        if by_text:
            return torch.arange(stop - start, device=self.image_of_text.device), self.image_of_text[start:stop]
        owners, texts = self._by_image
        first, last = torch.searchsorted(owners, torch.tensor([start, stop], device=owners.device)).tolist()
        return owners[first:last] - start, texts[first:last]

    @cached_property
    def _by_image(self) -> tuple[Tensor, Tensor]:
        """Owners in order, and the texts they own."""
        owners, texts = self.image_of_text.sort(stable=True)
        return owners, texts

    def counts(self, by_text: bool) -> np.ndarray:
        """The number of matches of each text, or of each image."""
        if self._copies:
            return self._copies.counts(by_text)
        owners = self.image_of_text.cpu().numpy()
        return np.ones(len(owners)) if by_text else np.bincount(owners, minlength=self.images)


class _Pairs:
    """Different pairs of a picture g and a caption h, and which of them each image and each text stands for."""

    def __init__(self, image_of_text: Tensor, copies: Copies):
        device = image_of_text.device
        self.pictures, self.captions = (
            numbers.unique(return_inverse=True)[1].to(device) for numbers in (copies.images, copies.texts)
        )
        owners = self.pictures[image_of_text]
        self.pairs = torch.stack([owners, self.captions], dim=1).unique(dim=0)  # [P, 2]

    def block(self, rows: slice | Tensor, by_text: bool) -> Tensor:
        asked, others = (self.captions, self.pictures) if by_text else (self.pictures, self.captions)
        own, found = (self.pairs[:, 1], self.pairs[:, 0]) if by_text else (self.pairs[:, 0], self.pairs[:, 1])
        distinct, place = asked[rows].unique(return_inverse=True)
        kept = torch.isin(own, distinct)
        table = torch.zeros(len(distinct), int(others.max()) + 1, dtype=torch.bool, device=own.device)
        table[torch.searchsorted(distinct, own[kept]), found[kept]] = True
        return table[:, others][place]

    def counts(self, by_text: bool) -> np.ndarray:
        asked, others = (self.captions, self.pictures) if by_text else (self.pictures, self.captions)
        own, found = (self.pairs[:, 1], self.pairs[:, 0]) if by_text else (self.pairs[:, 0], self.pairs[:, 1])
        sizes = torch.bincount(others)
        total = torch.zeros(int(asked.max()) + 1, dtype=torch.long, device=own.device)
        return total.index_add_(0, own, sizes[found])[asked].cpu().numpy()


def find_copies(source: Source, captions: Captions) -> Copies | None:
    """The copies among the images of a source and some captions of them; None where there are none, and where the
    source itself judges what matches."""
    if is_judged(source):
        return None
    copies = Copies(_numbered(_pictures(source)), _numbered(_words(captions)))
    return copies or None


def _pictures(source: Source) -> Iterable[Hashable]:
    if has_features(source):
        for start in range(0, len(source), AT_ONCE):
            values, mask = source.image_features(range(start, min(start + AT_ONCE, len(source))))
            yield from _rows(values, mask)
    elif has_digests(source):
        yield from map(source.picture_digest, range(len(source)))
    else:
        yield from range(len(source))


def _words(captions: Captions) -> Iterable[Hashable]:
    if captions.features is None:
        return (" ".join(text.split()).casefold() for text in captions.texts)
    return _rows(*captions.features)


def _rows(values: Tensor, mask: Tensor | None) -> Iterable[Hashable]:
    """A digest of each row of features, without what its mask hides."""
    for number, row in enumerate(values.cpu()):
        real = row if mask is None else row[mask[number].cpu()]
        yield hashlib.blake2b(real.float().contiguous().numpy().tobytes(), digest_size=16).digest()


def _numbered(names: Iterable[Hashable]) -> Tensor:
    seen: dict[Hashable, int] = {}
    return torch.tensor([seen.setdefault(name, len(seen)) for name in names], dtype=torch.long)
