"""Samples of a group, such as utterances of a video, read with those before them.

Ids are GROUP_NUMBER. A sample's sequence is up to `history` samples before it in its group, in the order of their
numbers, and then itself: the last real step is the sample. Nothing of later samples, or of another split, is in it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from equipoise.data.modalities.modality import Modality
from equipoise.types import UserError


def group_of(key: str) -> str:
    """The group of an id, which is the whole where it names none."""
    return key.rpartition("_")[0] or key


def with_history(keys: Sequence[str], parts: Mapping[str, Modality], history: int, place: str) -> dict[str, Modality]:
    """Sequences [N, history + 1, w] of vectors [N, w]."""
    for name, part in parts.items():
        if part.mask is not None:
            raise UserError(f"{place}: {name} is a sequence already, so data.history must be 0")
    rows = torch.full((len(keys), history + 1), -1)
    for group in _groups(keys, place).values():
        for place_in_group, row in enumerate(group):
            before = group[max(0, place_in_group - history) : place_in_group + 1]
            rows[row, : len(before)] = torch.tensor(before)
    real, chosen = rows >= 0, rows.clamp(min=0)
    return {name: Modality(part.values[chosen], real & part.has[chosen], part.has) for name, part in parts.items()}


def _groups(keys: Sequence[str], place: str) -> dict[str, list[int]]:
    """Rows of each group, by their numbers."""
    groups: dict[str, list[tuple[int, int]]] = {}
    for row, key in enumerate(keys):
        name, _, number = key.rpartition("_")
        if not name or not number.isdecimal():
            raise UserError(f"{place}: data.history needs ids GROUP_NUMBER, but one is {key!r}; set it to 0")
        groups.setdefault(name, []).append((int(number), row))
    return {name: [row for _, row in sorted(several)] for name, several in groups.items()}
