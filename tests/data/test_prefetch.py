"""Things made ahead: in order, by whoever; mistakes, stalls and deaths become one sentence."""

from __future__ import annotations

import os
import re
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from contextlib import closing
from itertools import count, islice, takewhile
from multiprocessing import resource_sharer

import pytest
import torch

from equipoise.data.prefetch import lost_worker, prefetch
from equipoise.types import UserError

WORKERS = [0, 1, 3]


def square(number: int) -> int:
    return number * number


def square_until_five(number: int) -> int:
    if number >= 5:
        raise UserError(f"there is no number {number}")
    return number * number


def wrong(number: int) -> int:
    return [1, 2, 3][number]


def stalls(number: int) -> int:
    if number == 2:
        time.sleep(60)
    return number


def dies(number: int) -> int:
    if number == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


@pytest.mark.parametrize("workers", WORKERS)
def test_everything_comes_in_order(workers):
    assert list(islice(prefetch(square, 3, workers), 9)) == [n * n for n in range(3, 12)]


@pytest.mark.parametrize("workers", WORKERS)
def test_a_mistake_comes_after_what_is_sound(workers):
    made = prefetch(square_until_five, 2, workers)
    assert list(islice(made, 3)) == [4, 9, 16]
    with pytest.raises(UserError, match=r"^there is no number 5$"):
        next(made)


@pytest.mark.parametrize("workers", WORKERS)
def test_a_programmers_mistake_keeps_its_kind(workers):
    with pytest.raises(IndexError):
        list(islice(prefetch(wrong, 0, workers), 5))


@pytest.mark.parametrize("workers", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_a_stall_ends_in_a_sentence(workers):
    started = time.monotonic()
    made = prefetch(stalls, 0, workers, timeout=1)
    assert [next(made), next(made)] == [0, 1]
    with pytest.raises(UserError, match=r"no batch came within 1 s, so the run ends"):
        next(made)
    assert time.monotonic() - started < 20


def pid_in_a_tensor(number: int) -> torch.Tensor:
    return torch.tensor([os.getpid(), number])


@pytest.mark.slow
def test_a_worker_stopped_while_it_hands_over_is_a_stall():
    """Its message is there, but the tensor comes by a socket, which torch reads without a timeout."""
    made = prefetch(pid_in_a_tensor, 0, 1, timeout=1)
    reader = int(next(made)[0])
    time.sleep(1.0)  # for the next ones to be announced
    os.kill(reader, signal.SIGSTOP)
    with pytest.raises(UserError, match=r"no batch came within 1 s, so the run ends"):
        list(islice(made, 5))
    with pytest.raises(ProcessLookupError):
        os.kill(reader, 0)


def test_a_death_ends_in_a_sentence():
    with pytest.raises((UserError, RuntimeError)) as error:
        list(islice(prefetch(dies, 0, 1, timeout=20), 5))
    # torch may tell it at any moment, even in the middle of something else; the command line expects that
    said = str(error.value) if error.type is UserError else lost_worker(error.value)
    assert re.match(r"a process that reads data died \(worker .*for want of memory", said)
    assert lost_worker(RuntimeError("something else")) is None


def whose(number: int) -> int:
    return os.getpid()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_to_all_processes_does_not_end_the_readers(number):
    """The run itself must be able to finish its step and save."""
    made = prefetch(whose, 0, workers=1, timeout=20)
    reader = next(made)
    os.kill(reader, number)
    time.sleep(0.3)
    assert [next(made) for _ in range(10)] == [reader] * 10
    made.close()
    with pytest.raises(ProcessLookupError):
        os.kill(reader, 0)


def test_the_thread_ends_with_its_reader():
    before = set(threading.enumerate())
    made = prefetch(square, 0)
    assert next(made) == 0
    (thread,) = set(threading.enumerate()) - before
    made.close()
    assert not thread.is_alive()


class Interrupted(BaseException):
    """As a signal's handler raises it."""


def interrupted_at(moment: int) -> bool:
    """Whether waiting for an item has so many moments, an error at this one of which ended the thread."""
    made, seen = prefetch(square, 0), count()
    next(made)

    def trace(*_: object) -> Callable[..., object]:
        if next(seen) == moment:
            raise Interrupted
        return trace

    sys.settrace(trace)
    try:
        next(made)
        return False
    except Interrupted:
        return True
    finally:
        sys.settrace(None)
        made.close()


def test_an_error_at_any_moment_of_the_wait_leaves_nothing_locked():
    """A signal that comes as a lock is taken, before it is known to be, leaves that lock taken for ever."""
    found: list[int] = []

    def every_moment() -> None:
        found.extend(takewhile(interrupted_at, count()))

    thread = threading.Thread(target=every_moment, daemon=True)
    thread.start()
    thread.join(60)
    assert not thread.is_alive()
    assert len(found) > 3


def hang_up_on_the_thread_that_hands_over(number: int) -> int:
    address, _ = resource_sharer.DupFd(0)._id  # such a thread runs where tensors are sent
    with socket.socket(socket.AF_UNIX) as caller:
        caller.connect(address)
    time.sleep(0.2)  # for the thread to notice
    return number


def test_a_reader_that_the_run_hung_up_on_says_nothing(capfd):
    with closing(prefetch(hang_up_on_the_thread_that_hands_over, 0, workers=1)) as made:
        next(made)
    assert capfd.readouterr().err == ""
