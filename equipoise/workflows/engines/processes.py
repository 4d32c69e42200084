"""Several processes of this machine, each with a model of its own and, where there are several, a GPU of its own."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing import active_children, current_process, get_context

import torch

from equipoise.data.part_writer import PartWriter
from equipoise.io.parent import end_with
from equipoise.io.progress import Progress
from equipoise.types import UserError
from equipoise.workflows.engines.worker import Job, PartDone, Surroundings, Worker

_workers: list[Worker] = []  # of this process, one or none


def write_in_processes(writer: PartWriter, job: Job, count: int, doing: str) -> None:
    """Write the files that are not there yet."""
    missing = writer.files.missing()
    worker = Worker(job, Surroundings.here(), max(1, torch.get_num_threads() // count))
    pool = ProcessPoolExecutor(count, get_context("spawn"), _begin, (worker, os.getpid()))
    try:
        with Progress(len(writer.files), doing, len(writer.files) - len(missing)) as progress:
            with _interrupts_later():
                parts = [pool.submit(_write, number) for number in missing]
            for done, part in enumerate(as_completed(parts), progress.already + 1):
                part.result().accept(writer.bad)
                progress.update(done)
    except KeyboardInterrupt:
        for process in active_children():
            if process.pid:
                os.kill(process.pid, signal.SIGINT)
        raise
    except BrokenProcessPool as error:
        raise UserError(
            "a process that computed points died (no memory left?); ask for fewer with --processes, or a smaller "
            "--batch-size, and start again: what is finished is kept"
        ) from error
    finally:
        pool.shutdown(cancel_futures=True)


@contextmanager
def _interrupts_later() -> Iterator[None]:
    """Processes that are started meanwhile are deaf to Ctrl-C until `_begin`, else each would print where it was."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class _Stop:
    """What an interrupt does in such a process: the file that it writes is given up, and no other is begun."""

    asked = busy = False

    def __call__(self, *_: object) -> None:
        first, self.asked = not self.asked, True
        if self.busy and first:
            raise KeyboardInterrupt

    @contextmanager
    def heeded(self) -> Iterator[None]:
        self.busy = True
        try:
            if self.asked:
                raise KeyboardInterrupt
            yield
        finally:
            self.busy = False


_stop = _Stop()  # of this process


def _begin(worker: Worker, parent: int) -> None:
    end_with(parent)
    signal.signal(signal.SIGINT, _stop)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    gpus = torch.cuda.device_count() if worker.around.device == "cuda" else 0
    if gpus > 1:
        number = (current_process()._identity or (1,))[-1] - 1
        worker.around = replace(worker.around, device=f"cuda:{number % gpus}")
    _workers[:] = [worker]


def _write(number: int) -> PartDone:
    with _stop.heeded():
        return _workers[0].write(number)
