"""Duplicates count as matches: samples with the same caption, the same image or the same label.

Scraped sets repeat themselves: two records with one caption are each other's negatives under a one-hot target, which
no model can learn. Where several match they share evenly (Khosla et al. 2020, "Supervised Contrastive Learning",
Eq. 2, with labels; ALBEF's fine-tuning, with images).

    target[i, j] = [i ~ j] / |{k : i ~ k}|        i ~ j where any of the named data is equal for i and j

`same` names what to compare: "index" (the record itself) or side data of the batch with one whole number per sample,
such as "caption" and "key" (fingerprints) or "label". With nothing alike this is the one-hot target.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import ClassVar

import torch
from torch import Tensor

from equipoise.spaces import Space
from equipoise.targets.one_hot import OneHot
from equipoise.targets.target import Gather, HardTarget
from equipoise.types import Batch, Embeddings, UserError

INDEX = "index"


class SharedKeys(HardTarget):
    """Samples that match where any of their keys [K, N] is equal."""

    divisible: ClassVar[bool] = True

    def __init__(self, keys: Tensor):
        self.keys = keys
        self._counts = _matches(keys)

    def sized(self, n_rows: int, n_cols: int) -> SharedKeys:
        if not n_rows == n_cols == self.keys.shape[1]:
            raise UserError(
                f"the target knows {self.keys.shape[1]} samples, but there are {n_rows} rows and {n_cols} columns; "
                "bind it to the whole batch"
            )
        return self

    def whole(self, gather: Gather, n_rows: int, n_cols: int) -> SharedKeys:
        return SharedKeys(gather(self.keys.T).T).sized(n_rows, n_cols)

    def positive(self, rows: range, cols: range, device: torch.device) -> Tensor | None:
        keys = self.keys.to(device)
        return (keys[:, rows.start : rows.stop, None] == keys[:, None, cols.start : cols.stop]).any(dim=0)

    def counts(self, numbers: range, like: Tensor) -> Tensor:
        return self._counts[numbers.start : numbers.stop].to(like)


@dataclass(frozen=True)
class Duplicates(HardTarget):
    cites: ClassVar[tuple[str, ...]] = ("khosla2020supcon",)
    divisible: ClassVar[bool] = True

    same: tuple[str, ...] = ("caption", INDEX)  # two samples match that share any of these

    def __post_init__(self) -> None:
        if not self.same:
            raise UserError('same is empty; name what makes two pairs alike, for example ["caption"]')

    @property
    def matches_classes(self) -> bool:
        return "label" in self.same

    def bind(
        self, embeddings: Embeddings, batch: Batch | None, *, log_scale: Tensor | float, space: Space
    ) -> SharedKeys:
        return SharedKeys(torch.stack([_key(batch, name) for name in self.same]))

    def positive(self, rows: range, cols: range, device: torch.device) -> Tensor | None:
        raise UserError("this target must be bound to a batch, for it compares samples; call target.bind(...) first")

    counts = positive  # type: ignore[assignment]


# The targets that know matches and the rest alone: what soft targets are softened from
HARD_TARGETS: dict[str, HardTarget | type[HardTarget]] = {
    "one_hot": OneHot,
    "duplicates": Duplicates,
    "labels": Duplicates(same=("label",)),
}


def _key(batch: Batch | None, name: str) -> Tensor:
    if batch is None:
        raise UserError(f"the target compares {name!r} of the samples; give the batch beside its embeddings")
    key = batch.index if name == INDEX else batch.side.get(name)
    if key is None:
        known = ", ".join(dict.fromkeys((INDEX, *batch.side)))
        raise UserError(
            f"the batch has no {name!r} to compare samples by (it has {known}); give it {name}=..., or correct "
            "target.same"
        )
    if key.ndim != 1 or key.is_floating_point():
        raise UserError(f"{name!r} holds {key.dtype} of the shape {list(key.shape)}; give one whole number a sample")
    return key.long()


def _matches(keys: Tensor) -> Tensor:
    """The number of matches of every sample [N], by inclusion and exclusion over keys: never N × N."""
    total = torch.zeros(keys.shape[1], dtype=torch.long, device=keys.device)
    for size in range(1, len(keys) + 1):
        for chosen in combinations(range(len(keys)), size):
            _, place, counts = torch.unique(keys[list(chosen)], dim=1, return_inverse=True, return_counts=True)
            total += (-1) ** (size + 1) * counts[place]
    return total
