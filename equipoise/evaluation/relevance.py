"""Relevance as lists of pairs: which texts are relevant to which images, without a matrix of all of them.

Each direction has lists of its own, for annotators may have judged some images with all texts and other texts with all
images (ECCV Caption): a query that no list names is not asked. Memory is linear in queries and pairs; a block of bool
is made for the queries that are ranked at the moment.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from equipoise.types import UserError

Lists = Mapping[Any, Iterable[Hashable]]  # what is relevant to each query, by their ids


@dataclass(frozen=True)
class SparseRelevance:
    """Relevant pairs of images and texts [P, 2], query first and sorted by it, for each direction."""

    images: int
    texts: int
    by_image: Tensor  # image, text
    by_text: Tensor  # text, image

    @classmethod
    def of_pairs(cls, images: int, texts: int, pairs: Tensor) -> SparseRelevance:
        """The same pairs [P, 2] of image and text for both directions."""
        return cls(images, texts, pairs.unique(dim=0), pairs.flip(1).unique(dim=0))

    @property
    def shape(self) -> tuple[int, int]:
        return self.images, self.texts

    def block(self, rows: slice, by_text: bool) -> Tensor:
        """Bool [rows, candidates]; rows are texts, or images."""
        pairs, queries, candidates = self._direction(by_text)
        start, stop, _ = rows.indices(queries)
        first, last = torch.searchsorted(pairs[:, 0].contiguous(), torch.tensor([start, stop])).tolist()
        found = torch.zeros(stop - start, candidates, dtype=torch.bool)
        found[pairs[first:last, 0] - start, pairs[first:last, 1]] = True
        return found

    def judged(self, rows: slice, by_text: bool) -> tuple[Tensor, Tensor]:
        """The rows that have a relevant item [k], from 0 for the first of them all, and their block [k, candidates]."""
        pairs, queries, candidates = self._direction(by_text)
        start, stop, _ = rows.indices(queries)
        first, last = torch.searchsorted(pairs[:, 0].contiguous(), torch.tensor([start, stop])).tolist()
        kept, place = (pairs[first:last, 0] - start).unique(return_inverse=True)
        found = torch.zeros(len(kept), candidates, dtype=torch.bool)
        found[place, pairs[first:last, 1]] = True
        return kept, found

    def counts(self, by_text: bool) -> np.ndarray:
        """The number of relevant items of each query."""
        pairs, queries, _ = self._direction(by_text)
        return torch.bincount(pairs[:, 0], minlength=queries).numpy()

    def _direction(self, by_text: bool) -> tuple[Tensor, int, int]:
        return (self.by_text, self.texts, self.images) if by_text else (self.by_image, self.images, self.texts)


@dataclass(frozen=True)
class Joined:
    """Relevance among what is ranked, and how many of the pairs that were given have both their ends there."""

    relevance: SparseRelevance
    kept: int
    given: int

    def sentence(self, what: str) -> str:
        """What was left out, for a person; empty where nothing was."""
        lost = self.given - self.kept
        return f"{lost:,} of {self.given:,} pairs of {what} name pictures or captions that are not here" if lost else ""


def join(
    image_ids: Sequence[Hashable], text_ids: Sequence[Hashable], by_image: Lists, by_text: Lists, where: str
) -> Joined:
    """Relevance by ids as relevance by numbers; pairs with an end that is not ranked are left out and counted.

    Raises UserError where nothing is left, or where two images or two texts have one id.
    """
    images, texts = _numbers(image_ids, "pictures", where), _numbers(text_ids, "captions", where)
    forward, total = _pairs(images, texts, by_image)
    backward, more = _pairs(texts, images, by_text)
    if not len(forward) or not len(backward):
        some = next(iter(by_image), None)
        raise UserError(
            f"{where}: none of its {total + more:,} pairs joins the {len(images):,} pictures and {len(texts):,} texts "
            f"here: it names pictures such as {some!r}, these are such as {image_ids[0]!r} and {text_ids[0]!r}; give "
            "the annotations of this data"
        )
    found = SparseRelevance(len(images), len(texts), forward, backward)
    return Joined(found, len(forward) + len(backward), total + more)


def _numbers(ids: Sequence[Hashable], what: str, where: str) -> dict[Hashable, int]:
    numbers = {name: number for number, name in enumerate(ids)}
    if len(numbers) < len(ids):
        twice = next(name for number, name in enumerate(ids) if numbers[name] != number)
        raise UserError(f"{where}: two {what} here have the id {twice!r}, so it cannot be told which is meant")
    return numbers


def _pairs(queries: Mapping[Hashable, int], items: Mapping[Hashable, int], lists: Lists) -> tuple[Tensor, int]:
    """Numbers [P, 2] of the pairs whose ends are both known, and how many pairs there are in all."""
    every = [(query, item) for query, several in lists.items() for item in set(several)]
    known = [(queries[query], items[item]) for query, item in every if query in queries and item in items]
    return torch.tensor(sorted(known), dtype=torch.long).view(-1, 2), len(every)
