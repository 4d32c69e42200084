"""Ray Data: actors with a model each, on this machine or on all of a cluster.

The data set that Ray is given are the numbers of the files that are missing; an actor writes each and answers with a
few words. An actor that is lost is started again, and with it the file it was at: those that it had finished are there.
Numbers come from memory and not from `ray.data.range`, whose reading tasks would wait for ever for a processor once
actors have taken all.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

import torch

from equipoise.data.bad_records import Fault
from equipoise.data.part_writer import PartWriter
from equipoise.io.progress import Progress
from equipoise.types import UserError
from equipoise.workflows.engines.worker import Job, PartDone, Surroundings, Worker

ADDRESS = "RAY_ADDRESS"
STORE = 100 << 20  # bytes of Ray's store on this machine: only numbers and words go through it
MOST_BLOCKS = 10_000
ON_THIS_MACHINE = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # so that Ray listens on 127.0.0.1 alone, on Linux too
    "RAY_BACKEND_LOG_LEVEL": "fatal",
}


def write_by_ray(writer: PartWriter, job: Job, processes: int | None, doing: str) -> None:
    """Write the files that are not there yet."""
    missing = writer.files.missing()
    if not missing:
        return
    ray, whole = import_ray(), len(writer.files)
    with _session(ray, processes), Progress(whole, doing, whole - len(missing)) as progress:
        data, room = _quiet_data(), _Room.of(ray, processes, len(missing))
        worker = Worker(job, Surroundings.here(), min(torch.get_num_threads(), room.cpus))
        answers = data.from_items(
            [{"number": number} for number in missing], override_num_blocks=min(len(missing), MOST_BLOCKS)
        ).map_batches(
            RayWorker,
            fn_constructor_args=(worker,),
            batch_size=1,
            compute=data.ActorPoolStrategy(size=room.actors),
            num_cpus=room.cpus,
            num_gpus=room.gpus,
        )
        try:
            for done, row in enumerate(answers.iter_rows(), progress.already + 1):
                _part_done(row).accept(writer.bad)
                progress.update(done)
        except ray.exceptions.RayError as error:
            raise UserError(
                f"Ray gave up ({root_cause(str(error))}); look at its logs, and start again: what is finished is kept"
            ) from error
    writer.files.folder.clear_leftovers()  # of actors that died


def root_cause(told: str) -> str:
    """The line that says what went wrong first, of a traceback to which Ray adds its own."""
    return told.split("\nThe above exception was the direct cause", maxsplit=1)[0].strip().splitlines()[-1]


class RayWorker:
    """`Worker` as Ray Data calls it."""

    def __init__(self, worker: Worker):
        self.worker = worker

    def __call__(self, batch: Mapping[str, Any]) -> dict[str, list[Any]]:
        told = [asdict(self.worker.write(int(number))) for number in batch["number"]]
        return {"told": [json.dumps(one) for one in told]}


def _part_done(row: Mapping[str, Any]) -> PartDone:
    told = json.loads(row["told"])
    told |= {"faults": tuple(Fault(**fault) for fault in told["faults"]), "warned": tuple(told["warned"])}
    return PartDone(**told)


class _Room:
    """Actors, and what each of them takes of the cluster."""

    def __init__(self, actors: int, cpus: int, gpus: int):
        self.actors, self.cpus, self.gpus = actors, cpus, gpus

    @classmethod
    def of(cls, ray: Any, processes: int | None, files: int) -> _Room:
        has = ray.cluster_resources()
        cpus, gpus = int(has.get("CPU", 0)), int(has.get("GPU", 0))
        most = min(cpus, gpus) if gpus else cpus
        if (processes or 1) > most:
            raise UserError(
                f"the Ray cluster has {cpus} CPUs and {gpus} GPUs, room for {most} processes and not for "
                f"{processes or 1}; ask for fewer with --processes, or let machines join"
            )
        actors = min(processes or most, files)
        return cls(actors, max(1, cpus // actors) if not gpus else 1, 1 if gpus else 0)


def import_ray() -> Any:
    """Ray, set up to stay on this machine unless a cluster was named."""
    if not os.environ.get(ADDRESS):
        for name, value in ON_THIS_MACHINE.items():
            os.environ.setdefault(name, value)
    try:
        import ray
    except ImportError as error:
        raise UserError("--engine ray needs Ray; install it with: pip install 'equipoise[ray]'") from error
    return ray


@contextmanager
def _session(ray: Any, processes: int | None) -> Iterator[None]:
    """The cluster that RAY_ADDRESS names, or a Ray of this machine for as long as this lasts. One that the program
    began itself is used and left alone."""
    if ray.is_initialized():
        yield
        return
    address = os.environ.get(ADDRESS)
    try:
        if address:
            ray.init(address=address, log_to_driver=False, logging_level="ERROR")
        else:
            cpus = max(processes or 1, os.cpu_count() or 1)
            ray.init(
                num_cpus=cpus, include_dashboard=False, object_store_memory=STORE, log_to_driver=False,
                logging_level="ERROR",
            )  # fmt: skip
    except (ConnectionError, RuntimeError, ValueError) as error:
        where = f"the cluster at {address}" if address else "this machine"
        raise UserError(
            f"Ray does not start on {where} ({str(error).strip().splitlines()[0]}); see its logs"
        ) from error
    try:
        yield
    finally:
        ray.shutdown()


def _quiet_data() -> Any:
    try:
        import ray.data
    except ImportError as error:
        raise UserError("--engine ray needs Ray Data; install it with: pip install 'equipoise[ray]'") from error
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    ray.data.DataContext.get_current().enable_progress_bars = False
    return ray.data
