"""One thread for all that models compute, and questions that wait for it answered together.

A model is changed while it is used (modes, hooks), so that two threads must not use it at once; and a batch of queries
costs hardly more than one. So whatever comes while the thread is busy is answered by its next turn. Batches and
work for one visitor alone take turns, so that neither waits for all of the other.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, Generic, TypeVar

from equipoise.serve.errors import Refused
from equipoise.types import UserError

T = TypeVar("T")
A = TypeVar("A")
B = TypeVar("B")
Job = tuple[Callable[[], Any], "Future[Any]"]
TOGETHER = 64  # questions of one turn


class Worker:
    def __init__(self, waiting: int):
        self.most, self.waiting = waiting, 0
        self._batches: deque[Job] = deque()
        self._single: deque[Job] = deque()
        self._ended, self._changed = False, threading.Condition()
        threading.Thread(target=self._do_all, name="model", daemon=True).start()

    async def run(self, work: Callable[[], T], batch: bool = False) -> T:
        """The result of `work`, done when its turn comes; raises Refused where too many wait already."""
        if self.waiting >= self.most:
            raise Refused(503, "too many people ask at once; try again in a moment")
        self.waiting += 1
        result: Future[T] = Future()
        with self._changed:
            (self._batches if batch else self._single).append((work, result))
            self._changed.notify()
        try:
            return await asyncio.wrap_future(result)
        finally:
            self.waiting -= 1

    def close(self) -> None:
        """End the thread when it has done what it is at; what still waits is given up."""
        with self._changed:
            self._ended = True
            self._changed.notify()

    def _do_all(self) -> None:
        kinds = [self._batches, self._single]
        while job := self._next(kinds):
            work, result = job
            if not result.set_running_or_notify_cancel():  # who asked has gone
                continue
            try:
                result.set_result(work())
            except Exception as error:
                result.set_exception(error)

    def _next(self, kinds: list[deque[Job]]) -> Job | None:
        """The first of the first kind that has one, which is then the last kind to be asked; None at the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._ended or any(kinds))
            if not self._ended:
                kinds.sort(key=lambda kind: not kind)  # stable
                kinds.append(kinds.pop(0))
                return kinds[-1].popleft()
            for kind in kinds:
                for _, result in kind:
                    result.cancel()
            return None


class Together(Generic[A, B]):
    """Questions of one kind, answered many at a time."""

    def __init__(self, worker: Worker, answer: Callable[[Sequence[A]], Sequence[B]]):
        self.worker, self.answer = worker, answer
        self._waiting: list[tuple[A, asyncio.Future[B]]] = []
        self._task: asyncio.Task[None] | None = None

    async def ask(self, question: A) -> B:
        if len(self._waiting) >= self.worker.most:
            raise Refused(503, "too many people ask at once; try again in a moment")
        future: asyncio.Future[B] = asyncio.get_running_loop().create_future()
        self._waiting.append((question, future))
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._answer_all())
        return await future

    async def _answer_all(self) -> None:
        while self._waiting:
            some, self._waiting = self._waiting[:TOGETHER], self._waiting[TOGETHER:]
            await self._answer(some)

    async def _answer(self, some: Sequence[tuple[A, asyncio.Future[B]]]) -> None:
        try:
            answers = await self.worker.run(lambda: self.answer([question for question, _ in some]), batch=True)
        except UserError as error:
            if len(some) == 1:
                _give_up(some[0][1], error)
                return
            for one in some:  # the mistake of one is not that of the others
                await self._answer([one])
        except Exception as error:
            for _, future in some:
                _give_up(future, error)
        else:
            for (_, future), found in zip(some, answers, strict=True):
                if not future.done():  # who asked may have gone
                    future.set_result(found)


def _give_up(future: asyncio.Future[B], error: Exception) -> None:
    if not future.done():
        future.set_exception(error)
