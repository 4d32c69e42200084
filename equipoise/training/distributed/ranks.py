"""Which of several processes this is, and how they agree on values. How they are joined: `process_group.py`.

All of it goes over the CPU (gloo), so that no call waits for a GPU.
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
class _Failure:
    """A UserError on its way from one rank to another."""

    error: UserError


@dataclass(frozen=True)
class Ranks:
    """This process's number among those of a run. Every method but the properties must be called by all of them."""

    rank: int = 0
    world: int = 1

    @property
    def is_main(self) -> bool:
        """Whether this process is the one that writes and prints."""
        return self.rank == 0

    @property
    def share(self) -> tuple[int, int]:
        """Which part of the data is this process's: number, of how many."""
        return self.rank, self.world

    def barrier(self) -> None:
        """Wait until all ranks call this."""
        self.highest(0)

    def print(self, sentence: str) -> None:
        """Print on the first rank."""
        if self.is_main:
            print(sentence, flush=True)

    def highest(self, *values: int) -> list[int]:
        """The highest of each value over all ranks."""
        return self._reduced(values, dist.ReduceOp.MAX)

    def total(self, value: int) -> int:
        """The sum of a value over all ranks."""
        return self._reduced([value], dist.ReduceOp.SUM)[0]

    def gather_objects(self, value: T) -> list[T]:
        """The values of all ranks, in their order."""
        values: list[Any] = [value] * self.world
        if self.world > 1:
            dist.all_gather_object(values, value)
        return values

    def on_main(self, work: Callable[[], T]) -> T:
        """The result of `work`, which the first rank alone does; a UserError there is raised on all."""
        if self.world == 1:
            return work()
        outcome: list[Any] = [_attempt(work) if self.is_main else None]
        dist.broadcast_object_list(outcome)
        return _unwrap(outcome[0])

    def on_each(self, work: Callable[[], T]) -> T:
        """The result of `work` on this rank; a UserError on any rank is raised on all."""
        if self.world == 1:
            return work()
        mine = _attempt(work)
        for failure in self.gather_objects(mine if isinstance(mine, _Failure) else None):
            _unwrap(failure)
        return _unwrap(mine)

    @contextmanager
    def replacing(self, path: Path) -> Iterator[Path]:
        """As `io.atomic.replacing`, for a folder that every rank writes to. What raises inside must raise on all."""
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


def _attempt(work: Callable[[], T]) -> T | _Failure:
    try:
        return work()
    except UserError as error:
        return _Failure(error if isinstance(error, CannotWrite) else UserError(str(error)))


def _unwrap(outcome: T | _Failure) -> T:
    if isinstance(outcome, _Failure):
        raise outcome.error
    return outcome
