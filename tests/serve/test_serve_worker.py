"""Questions that wait are answered together, and the mistake of one is not that of the others."""

from __future__ import annotations

import asyncio
import threading

import pytest

from equipoise.serve.errors import Refused
from equipoise.serve.worker import TOGETHER, Together, Worker
from equipoise.types import UserError


def answered(questions: list[int], waiting: int = 1000) -> tuple[list[object], list[int]]:
    """Answers (or errors) to all questions, asked at once, and how many each turn had."""
    turns: list[int] = []

    def double(some):
        turns.append(len(some))
        if any(one < 0 for one in some):
            raise UserError("below zero")
        if 13 in some:
            raise RuntimeError("thirteen")
        return [2 * one for one in some]

    async def ask_all() -> list[object]:
        worker = Worker(waiting)
        together = Together(worker, double)
        try:
            return await asyncio.gather(*(together.ask(one) for one in questions), return_exceptions=True)
        finally:
            worker.close()

    return asyncio.run(ask_all()), turns


def test_many_questions_take_few_turns():
    answers, turns = answered(list(range(100, 300)))
    assert answers == [2 * one for one in range(100, 300)]
    assert len(turns) <= 200 // TOGETHER + 2


def test_a_mistake_is_told_to_the_one_who_made_it():
    answers, _ = answered([1, -2, 3])
    assert (answers[0], answers[2]) == (2, 6)
    assert isinstance(answers[1], UserError)


def test_what_nobody_expected_is_told_to_all_and_ends_nothing():
    answers, _ = answered([13, 1])
    assert all(isinstance(one, RuntimeError) for one in answers)


def test_too_many_questions_are_refused():
    answers, _ = answered(list(range(100, 110)), waiting=4)
    refused = [one for one in answers if isinstance(one, Refused)]
    assert len(refused) == 6
    assert {one.code for one in refused} == {503}


def test_only_one_thread_uses_the_model():
    threads = set()

    async def work() -> None:
        worker = Worker(100)
        await asyncio.gather(*(worker.run(lambda: threads.add(threading.get_ident())) for _ in range(20)))
        worker.close()

    asyncio.run(work())
    assert len(threads) == 1


def test_work_beyond_what_may_wait_is_refused():
    async def work() -> None:
        worker, gate = Worker(1), threading.Event()
        first = asyncio.create_task(worker.run(gate.wait))
        await asyncio.sleep(0)
        with pytest.raises(Refused):
            await worker.run(lambda: None)
        gate.set()
        await first
        worker.close()

    asyncio.run(work())


def test_batches_and_single_questions_take_turns():
    done: list[str] = []

    async def work() -> None:
        worker, begun, gate = Worker(100), threading.Event(), threading.Event()
        names = [("why 1", False), ("why 2", False), ("search 1", True), ("search 2", True)]
        first = asyncio.create_task(worker.run(lambda: begun.set() or gate.wait()))  # so that batches are next
        await asyncio.sleep(0)
        begun.wait()
        tasks = [asyncio.create_task(worker.run(lambda name=name: done.append(name), urgent)) for name, urgent in names]
        await asyncio.sleep(0)
        gate.set()
        await asyncio.gather(first, *tasks)
        worker.close()

    asyncio.run(work())
    assert done == ["search 1", "why 1", "search 2", "why 2"]
