"""Which of several processes this is, and how they come to the same mind. How they are joined: `process_group.py`.

All agreement goes over the processor (gloo), so that asking costs no wait for a GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch
import torch.distributed as dist

from equipoise.io.atomic import CannotWrite, replacing
from equipoise.types import UserError

T = TypeVar("T")


@dataclass(frozen=True)
class _Refusal:
    """A user's mistake on its way from one rank to another."""

    error: UserError


@dataclass(frozen=True)
class Ranks:
    """This process's place among those of a run. Every method but the properties is called by all of them."""

    rank: int = 0
    world: int = 1

    @property
    def is_main(self) -> bool:
        """Whether this process is the one that writes and speaks."""
        return self.rank == 0

    @property
    def share(self) -> tuple[int, int]:
        return self.rank, self.world

    def barrier(self) -> None:
        """Until all have come here."""
        self.highest(0)

    def print(self, sentence: str) -> None:
        if self.is_main:
            print(sentence, flush=True)

    def highest(self, *values: int) -> list[int]:
        """The highest of each value over all ranks."""
        return self._reduced(values, dist.ReduceOp.MAX)

    def total(self, value: int) -> int:
        return self._reduced([value], dist.ReduceOp.SUM)[0]

    def gather_objects(self, value: T) -> list[T]:
        """Every rank's value, in their order."""
        values: list[Any] = [value] * self.world
        if self.world > 1:
            dist.all_gather_object(values, value)
        return values

    def on_main(self, work: Callable[[], T]) -> T:
        """What `work` gives on the first rank, which alone does it; a user's mistake there is raised on all."""
        if self.world == 1:
            return work()
        outcome: list[Any] = [_attempted(work) if self.is_main else None]
        dist.broadcast_object_list(outcome)
        return _accepted(outcome[0])

    def on_each(self, work: Callable[[], T]) -> T:
        """What `work` gives here; a user's mistake on any rank is raised on all."""
        if self.world == 1:
            return work()
        mine = _attempted(work)
        for refusal in self.gather_objects(mine if isinstance(mine, _Refusal) else None):
            _accepted(refusal)
        return _accepted(mine)

    @contextmanager
    def replacing(self, path: Path) -> Iterator[Path]:
        """As `files.replacing`, for a folder into which every rank may write. What raises inside raises on all."""
        with ExitStack() as stack:
            temporary = self.on_main(lambda: stack.enter_context(replacing(path)))
            try:
                yield temporary
            except CannotWrite as error:  # of a file inside: name what the caller asked for
                raise CannotWrite(path, error.reason) from error
            self.on_main(stack.close)

    def _reduced(self, values: Any, how: Any) -> list[int]:
        if self.world == 1:
            return list(values)
        numbers = torch.tensor(values)
        dist.all_reduce(numbers, how)
        return numbers.tolist()


def _attempted(work: Callable[[], T]) -> T | _Refusal:
    try:
        return work()
    except UserError as error:
        return _Refusal(error if isinstance(error, CannotWrite) else UserError(str(error)))


def _accepted(outcome: T | _Refusal) -> T:
    if isinstance(outcome, _Refusal):
        raise outcome.error
    return outcome
