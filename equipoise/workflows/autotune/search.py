"""The search: one setting after the other, each at its fastest value so far, so that tries are few.

    micro_batch   the whole batch, a half, a quarter, an eighth of it, until one that fits is slower than one before
    precision     those that were asked for; on a GPU with bf16 units bf16 besides, where the recipe is float32
    compile       the other way round
    cuda_graphs   on a GPU: the other way round. A model that cannot be recorded is refused, which is a row
    workers       none, half as many as there are cores, as many

Their product would be a hundred tries, and says hardly more: they bound different things.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Settings = Mapping[str, Any]  # keys of [training]
KEYS = ("micro_batch", "precision", "compile", "cuda_graphs", "workers")
PARTS = (1, 2, 4, 8)  # of a batch


@dataclass(frozen=True)
class Tried:
    """What became of one try."""

    settings: Settings
    pairs_per_second: float = 0.0  # 0: it did not fit, or failed
    why: str = ""  # it did

    @property
    def fits(self) -> bool:
        return self.pairs_per_second > 0


@dataclass(frozen=True)
class Space:
    """What there is to try."""

    start: Settings  # of the recipe
    batch: int
    precisions: Sequence[str]
    cores: int
    gpu: bool = False
    bf16: bool = False  # whether that GPU has units for it

    def micro_batches(self) -> list[int]:
        parts = [self.batch // part for part in PARTS if self.batch % part == 0 and self.batch // part > 1]
        return [0, *parts[1:]]

    def others(self, key: str) -> list[Any]:
        """Values of a setting besides that of the recipe."""
        choices: dict[str, list[Any]] = {
            "precision": [*self.precisions, *self.added_precisions()],
            "compile": [False, True],
            "cuda_graphs": [False, True] if self.gpu else [],
            "workers": [0, self.cores // 2, self.cores],
        }
        return [value for value in dict.fromkeys(choices[key]) if value != self.start[key]]

    def added_precisions(self) -> list[str]:
        """Precisions that are tried though nobody named them."""
        return ["bf16"] if self.bf16 and self.start["precision"] == "float32" else []

    def most_tries(self) -> int:
        own = {*self.micro_batches(), self.start["micro_batch"]}
        return len(own) + sum(len(self.others(key)) for key in KEYS[1:])


def search(space: Space, attempt: Callable[[Settings], Tried]) -> Iterator[Tried]:
    """Yields every try; `attempt` makes one."""
    best: Tried | None = None
    own = space.start["micro_batch"]
    for micro_batch in dict.fromkeys((*([own] if own else []), *space.micro_batches())):
        tried = attempt({**space.start, "micro_batch": micro_batch})
        yield tried
        if best and tried.fits and tried.pairs_per_second < best.pairs_per_second and micro_batch != 0:
            break
        best = faster(best, tried)
    for key in KEYS[1:]:
        for value in space.others(key):
            tried = attempt({**(best.settings if best else space.start), key: value})
            yield tried
            best = faster(best, tried)


def faster(best: Tried | None, tried: Tried) -> Tried | None:
    """The faster of the two that fits; None where neither does."""
    if not tried.fits:
        return best
    return tried if best is None or tried.pairs_per_second > best.pairs_per_second else best
