"""A source that knows its copies: of pictures by what they look like, remembered while others read them so that nothing
is read twice, and of features by what they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from equipoise.data.copies.features import feature_copies
from equipoise.data.copies.find import Copy, find_copies
from equipoise.data.copies.signature import Signatures
from equipoise.data.source import Pair, Source, has_features


class WatchedSource:
    """`source`, whatever it offers; `copies` names the pictures that were read and are copies of one another, and the
    records whose features are."""

    def __init__(self, source: Source):
        self.source: Any = source
        self._numbers: list[int] = []
        self._parts: list[Signatures] = []
        self._seen: set[int] = set()
        self._found: tuple[int, list[Copy]] = (-1, [])  # after so many pictures

    def __len__(self) -> int:
        return len(self.source)

    def __getattr__(self, name: str) -> Any:
        if name == "source":  # not there yet, while it is unpickled
            raise AttributeError(name)
        return getattr(self.source, name)

    def pair(self, index: int) -> Pair:
        return self.source.pair(index)

    def images(self, indices: Sequence[int], size: int, device: torch.device | str = "cpu") -> Tensor:
        pictures = self.source.images(indices, size, device)
        blank = getattr(self.source, "unreadable", ())  # a picture that is not there is no copy of another such
        new = [place for place, index in enumerate(indices) if index not in self._seen and index not in blank]
        if new:
            self._parts.append(Signatures.of(pictures[new]))
            self._numbers += [indices[place] for place in new]
            self._seen |= set(self._numbers[-len(new) :])
        return pictures

    def seen(self) -> tuple[Sequence[int], Signatures | None]:
        """The numbers of the pictures that were read so far, and what is remembered of them."""
        return self._numbers, Signatures.joined(self._parts) if self._parts else None

    def add(self, numbers: Sequence[int], signatures: Signatures) -> None:
        """Remember pictures that another process read."""
        new = [place for place, number in enumerate(numbers) if number not in self._seen]
        if new:
            self._parts.append(signatures.taken(np.array(new)))
            self._numbers += [numbers[place] for place in new]
            self._seen |= set(self._numbers[-len(new) :])

    def copies(self) -> list[Copy]:
        """Copies among the pictures read so far, and among features, by their numbers in the source: exact ones first,
        then the most alike."""
        if len(self._numbers) != self._found[0]:
            seen = self._compared() if self._numbers else []
            self._found = (len(self._numbers), self._with_features(seen))
        return self._found[1]

    def _with_features(self, seen: list[Copy]) -> list[Copy]:
        if not has_features(self.source):
            return seen
        known = {(copy.first, copy.second) for copy in seen}
        told = [copy for copy in feature_copies(self.source) if (copy.first, copy.second) not in known]
        return sorted(seen + told, key=lambda copy: (not copy.exact, -copy.similarity))

    def _compared(self) -> list[Copy]:
        numbers = np.array(self._numbers)
        order = np.argsort(numbers, kind="stable")
        found = find_copies(Signatures.joined(self._parts).taken(order))
        names = numbers[order].tolist()
        return [Copy(names[copy.first], names[copy.second], copy.similarity, copy.exact) for copy in found]
