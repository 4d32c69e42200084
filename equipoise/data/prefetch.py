"""Items made ahead of their use, in order: by a thread, or by worker processes.

`make(number)` must be a pure function, so that it does not matter who calls it. A UserError is raised where the item
would have been used; a maker that stalls or dies raises one too.
"""

from __future__ import annotations

import queue
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import count
from types import TracebackType
from typing import Any, Generic, TypeVar

import torch
from torch._C import _remove_worker_pids
from torch.utils.data import DataLoader, Dataset, Sampler

from equipoise.data.loader_watchdog import Watchdog
from equipoise.types import UserError

T = TypeVar("T")
AHEAD = 2  # items that the thread, or each process, makes ahead
GRACE = 120  # seconds that a process goes on after it got a signal to end
PATIENCE = 5.0  # seconds given to a thread to finish an item that will not be used


@dataclass(frozen=True)
class _Failed:
    error: Exception


Made = Generator[T | _Failed, None, None]


def prefetch(make: Callable[[int], T], start: int, workers: int = 0, timeout: float = 0.0) -> Generator[T, None, None]:
    """make(start), make(start + 1), ... without end; `timeout` seconds of waiting for one are too long, 0 is never."""
    source = _by_processes(make, start, workers, timeout) if workers else _by_thread(make, start, timeout)
    with closing(source):
        for made in source:
            if isinstance(made, _Failed):
                raise made.error
            yield made


WORKER_ERRORS = (RuntimeError, ConnectionError, EOFError)  # what the death of a worker may raise


def lost_worker(error: Exception) -> str | None:
    """The message for an error that means the death of a worker, None for any other; it may be raised anywhere."""
    broken_pipe = isinstance(error, ConnectionError | EOFError)  # it died while its batch was on the way
    if not broken_pipe and not str(error).startswith("DataLoader worker"):
        return None
    message = (str(error) or type(error).__name__).splitlines()[0].removeprefix("DataLoader ").rstrip(". ")
    return (
        f"a process that reads data died ({message}), often "
        "for want of memory; use fewer training.workers or a smaller batch, and resume the run"
    )


def _attempt(make: Callable[[int], T], number: int, caught: type[Exception]) -> T | _Failed:
    try:
        return make(number)
    except caught as error:
        return _Failed(error)


def _by_thread(make: Callable[[int], T], start: int, timeout: float) -> Made[T]:
    # A signal may raise an error anywhere in the thread that waits. Of Python's queues only SimpleQueue, which is C,
    # can never be left locked by it, and then block this generator's own end.
    wanted: queue.SimpleQueue[bool] = queue.SimpleQueue()  # True: one item more; False: the end
    ready: queue.SimpleQueue[T | _Failed] = queue.SimpleQueue()
    stopped = threading.Event()

    def work() -> None:
        numbers = count(start)
        while wanted.get() and not stopped.is_set():
            ready.put(_attempt(make, next(numbers), Exception))

    thread = threading.Thread(target=work, name="made ahead", daemon=True)  # one that stalls must not hold up the exit
    thread.start()
    patience = PATIENCE
    try:
        for _ in range(AHEAD):
            wanted.put(True)
        while True:
            made = ready.get(timeout=timeout or None)
            wanted.put(True)
            yield made
    except queue.Empty:
        patience = 0.0
        raise _stalled(timeout) from None
    finally:
        stopped.set()
        wanted.put(False)
        thread.join(patience)


def _by_processes(make: Callable[[int], T], start: int, workers: int, timeout: float) -> Made[T]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*worker processes in total")  # the number was chosen on purpose
        loader: DataLoader[Any] = DataLoader(
            _Numbered(make),
            batch_size=None,
            sampler=_From(start),
            num_workers=workers,
            prefetch_factor=AHEAD,
            timeout=timeout,
            worker_init_fn=_begin_worker,
            generator=torch.Generator(),  # or every start would draw from the generator that training uses
        )
        made: Any = iter(loader)
    watchdog = Watchdog(timeout, lambda: _kill_workers(made))
    try:
        with watchdog:
            yield from watchdog.watched(made)
    except WORKER_ERRORS as error:
        if watchdog.has_killed or str(error).startswith("DataLoader timed out"):
            raise _stalled(timeout) from None
        if message := lost_worker(error):
            raise UserError(message) from None
        raise
    finally:
        _end_workers(made)


# The next two are the one place that uses private members of torch's DataLoader, which has no public way.


def _kill_workers(iterator: Any) -> None:
    """Kills the workers, from any thread; what waits for one then raises an error, and nothing else does."""
    _remove_worker_pids(id(iterator))  # or torch would raise the news of each death anywhere in the main thread
    iterator._worker_pids_set = False
    for worker in iterator._workers:
        worker.kill()
    iterator._worker_result_queue._writer.close()  # the last open end of a message that was cut in the middle


def _end_workers(iterator: Any) -> None:
    """Ends the workers. Now, not when the last reference goes, which may be in a process forked later."""
    iterator._shutdown_workers()
    for worker in iterator._workers:
        worker.kill()  # a stalled one; the others have ended


def _begin_worker(_: int) -> None:
    sys.excepthook = _ignore_a_lost_run
    _outlast_signals()


def _outlast_signals() -> None:
    """Keeps a worker alive when a signal to the whole group (Ctrl-C, a cluster's notice) makes the run save."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: signal.alarm(GRACE))


def _ignore_a_lost_run(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Hides the traceback of the thread that sends tensors to a run that has ended; the run itself says why."""
    if not issubclass(kind, (ConnectionError, EOFError)):
        sys.__excepthook__(kind, error, trace)


class _Numbered(Dataset[Any], Generic[T]):
    """`make` as a DataLoader's dataset: items by number."""

    def __init__(self, make: Callable[[int], T]):
        self.make = make

    def __getitem__(self, number: int) -> T | _Failed:
        return _attempt(self.make, number, UserError)  # others keep the traceback that DataLoader adds


class _From(Sampler[int]):
    def __init__(self, start: int):
        self.start = start

    def __iter__(self) -> Iterator[int]:
        return iter(count(self.start))


def _stalled(timeout: float) -> UserError:
    return UserError(
        f"no batch came within {timeout:g} s, so the run ends; see whether the disk that holds the data answers, or "
        "raise training.loader_timeout"
    )
