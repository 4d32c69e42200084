"""Samples of named modalities as a source: any row by number, batches of them.

A batch holds no pixels and no tokens; the modalities are its side data (`data/source.py` has the names).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn

import torch
from torch import Tensor

from equipoise.data.modalities.modality import Modality
from equipoise.data.side_data import names
from equipoise.data.source import CLASS, HAS_MODALITY, MODALITY, MODALITY_MASK, VALUE, Pair
from equipoise.data.tokenizer import CaptionTokenizer
from equipoise.types import COMMON, EVERY_MODALITY, JOINT, MOMENTUM, RECALLED, SCORES, Batch, Embeddings, UserError

ROLES = {*Embeddings.__dataclass_fields__, JOINT, SCORES, EVERY_MODALITY, *RECALLED, *COMMON}
RESERVED = frozenset({*ROLES, "all"} - {"image", "text"})


@dataclass(frozen=True)
class Labels:
    """What is to be told of each sample: the number of its class, or a number."""

    values: Tensor  # [N] whole numbers of classes, or float32
    classes: tuple[str, ...] = ()  # none: numbers

    @property
    def outputs(self) -> int:
        return len(self.classes) or 1

    def side(self, rows: Tensor) -> dict[str, Tensor]:
        return {CLASS if self.classes else VALUE: self.values[rows]}

    def told(self, row: int) -> str:
        value = self.values[row].item()
        return self.classes[int(value)] if self.classes else f"{value:g}"


class ModalSamples:
    """One split, in memory."""

    def __init__(self, keys: Sequence[str], parts: Mapping[str, Modality], labels: Labels | None, place: str):
        self.keys, self.parts, self._labels, self.place = list(keys), dict(parts), labels, place
        require_names(self.parts, place)

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def modalities(self) -> dict[str, int]:
        return {name: part.width for name, part in self.parts.items()}

    @property
    def lengths(self) -> dict[str, int]:
        return {name: 1 if part.mask is None else part.values.shape[1] for name, part in self.parts.items()}

    @property
    def outputs(self) -> int:
        return self._labels.outputs if self._labels else 0

    @property
    def classes(self) -> tuple[str, ...]:
        return self._labels.classes if self._labels else ()

    @property
    def labels(self) -> Tensor:
        if self._labels is None:
            raise UserError(f"{self.place} holds no labels, so there is nothing to tell; add an array of them")
        return self._labels.values

    def present(self, name: str) -> Tensor:
        return self.parts[name].has

    def pair(self, index: int) -> Pair:
        if not 0 <= index < len(self):
            raise IndexError(f"there are {len(self)} samples, but no number {index}")
        return Pair(self.keys[index], (), self._labels.told(index) if self._labels else None)

    def images(self, indices: Sequence[int], size: int, device: torch.device | str = "cpu") -> NoReturn:
        raise UserError(f"{self.place} holds {', '.join(self.parts)}, which cannot be shown or encoded as pictures")

    def batch(
        self, indices: Sequence[int], draws: Sequence[float] = (), tokens: CaptionTokenizer | None = None
    ) -> Batch:
        rows = torch.as_tensor(indices, dtype=torch.long)
        side = names([self.keys[index] for index in indices], [self.pair(index).label for index in indices])
        side |= self._labels.side(rows) if self._labels else {}
        for name, part in self.parts.items():
            taken = part.take(rows)
            side |= {f"{MODALITY}{name}": taken.values, f"{HAS_MODALITY}{name}": taken.has}
            side |= {} if taken.mask is None else {f"{MODALITY_MASK}{name}": taken.mask}
        nothing = torch.zeros(len(rows), 0)
        return Batch(nothing, nothing.long(), nothing.bool(), rows, side)


def require_names(names: Mapping[str, object], place: str) -> None:
    """Raise UserError for names that a model could not tell from its own."""
    if not names:
        raise UserError(f"{place} holds no modality; give arrays [N, w] or [N, L, w] of floating-point numbers")
    for name in names:
        if name in RESERVED or name.startswith(MOMENTUM) or not name.replace("-", "_").isidentifier():
            raise UserError(f"{place}: a modality cannot be called {name!r}; give it a plain name of its own")
