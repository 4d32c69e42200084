"""The engine that a command was asked for, and what it does with a job."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

from equipoise.data.part_writer import PartWriter
from equipoise.io.resumable import NumberedFiles
from equipoise.types import UserError
from equipoise.workflows.engines.worker import Job

ENGINES = ("local", "ray")


@dataclass(frozen=True)
class Engine:
    """`local`: this machine; `ray`: Ray Data, on this machine or on the cluster of RAY_ADDRESS."""

    name: str = "local"
    processes: int | None = None  # None: one, or with Ray as many as there is room for

    def __post_init__(self) -> None:
        if self.name not in ENGINES:
            raise UserError(f"--engine is {self.name}; choose one of {', '.join(ENGINES)}")
        if self.processes is not None and self.processes < 1:
            raise UserError(f"processes must be at least 1, not {self.processes}")

    @property
    def is_this_process(self) -> bool:
        """Whether all work is done here, without further processes."""
        return self.name == "local" and self.processes in (None, 1)

    def require(self) -> None:
        """Raise UserError where the engine is not installed, before anything is done that takes time."""
        if self.name == "ray":
            from equipoise.workflows.engines.ray_data import import_ray

            import_ray()


def write_parts(engine: Engine, writer: PartWriter, job: Job, doing: str, finer: str = "") -> None:
    """Write the files that are not there yet. `writer` is what `job` opens, opened here; `finer` is the option of its
    command that makes more files."""
    files, asked = len(writer.files), engine.processes or 1
    if finer and files < asked:
        warnings.warn(_too_few(files, asked, finer), stacklevel=2)
    if engine.is_this_process or (engine.name == "local" and files <= 1):  # further ones would have nothing to do
        writer.write_missing(doing)
    elif engine.name == "ray":
        from equipoise.workflows.engines.ray_data import write_by_ray

        write_by_ray(writer, job, engine.processes, doing)
    else:
        from equipoise.workflows.engines.processes import write_in_processes

        write_in_processes(writer, job, min(asked, files), doing)  # not of what is missing: the same threads again
    _require_all(writer.files, engine)


def _too_few(files: int, asked: int, finer: str) -> str:
    whole = "one file, so one process does it" if files == 1 else f"{files} files, so {files} processes do it"
    return f"this work is cut into {whole}, not {asked}; a smaller {finer} gives all of them work"


def _require_all(files: NumberedFiles, engine: Engine) -> None:
    if missing := files.missing():
        raise UserError(
            f"{files.place / files.name(missing[0])} was written by a process of --engine {engine.name} and is not "
            "here; give a folder that all machines share"
        )
