"""Several processes of this machine, each with a model of its own and, where there are several, a GPU of its own."""

from __future__ import annotations

import os
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from multiprocessing import current_process, get_context

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
            parts = [pool.submit(_write, number) for number in missing]
            for done, part in enumerate(as_completed(parts), progress.already + 1):
                part.result().accept(writer.bad)
                progress.update(done)
    except BrokenProcessPool as error:
        raise UserError(
            "a process that computed points died (no memory left?); ask for fewer with --processes, or a smaller "
            "--batch-size, and start again: what is finished is kept"
        ) from error
    finally:
        pool.shutdown(cancel_futures=True)


def _begin(worker: Worker, parent: int) -> None:
    end_with(parent)
    gpus = torch.cuda.device_count() if worker.around.device == "cuda" else 0
    if gpus > 1:
        number = (current_process()._identity or (1,))[-1] - 1
        worker.around = replace(worker.around, device=f"cuda:{number % gpus}")
    _workers[:] = [worker]


def _write(number: int) -> PartDone:
    return _workers[0].write(number)
