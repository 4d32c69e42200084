"""The log of a run: one JSON object per line in `metrics.jsonl`, and the loggers of a recipe besides."""

from __future__ import annotations

import json
import os
import tomllib
import warnings
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from equipoise.io.atomic import write_text
from equipoise.training.logging.writer import open_writers
from equipoise.types import UserError

METRICS_FILE = "metrics.jsonl"

BEFORE = {"temperature": "logit_scale", "mix/temperature": "mix/logit_scale"}  # names of older runs


class MetricsLog:
    """The log of a run that starts, or resumes after `step` with the first `kept` records of its file; `loggers` take
    the same records (`writer.py`), and the run's settings, `config`, as TOML."""

    def __init__(
        self,
        folder: Path,
        kept: int = 0,
        step: int = 0,
        loggers: tuple[str, ...] = ("tensorboard",),
        config: str = "",
    ):
        self.path = folder / METRICS_FILE
        self.records = self._cut_back(kept)
        self._files = ExitStack()
        with self._disk_errors_for_users():
            self._file = self._files.enter_context(self.path.open("a", encoding="utf-8"))
            self._writers = open_writers(loggers, folder, step, tomllib.loads(config))
        for writer in self._writers:
            self._files.enter_context(closing(writer))

    def __enter__(self) -> MetricsLog:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        with suppress(OSError):  # all is flushed when written, and what cannot be closed has raised then
            self._files.close()

    def write(self, step: int, values: Mapping[str, float]) -> None:
        record = {"step": step, **values}
        self.records.append(record)
        with self._disk_errors_for_users():
            self._file.write(_line(record))
            self._file.flush()
            for writer in self._writers:
                writer.write(step, values)

    def sync(self) -> None:
        """Bring what was written onto the disk, so that a checkpoint may count on it."""
        with self._disk_errors_for_users():
            os.fsync(self._file.fileno())

    def _cut_back(self, kept: int) -> list[dict[str, float]]:
        """Drop what was logged after the checkpoint from which the run resumes: it will be logged again."""
        records = read_metrics(self.path)[:kept] if kept else []
        if len(records) < kept:
            warnings.warn(
                f"{self.path} has {len(records)} whole records of the {kept} that were logged; curves will have a gap",
                stacklevel=3,
            )
        write_text(self.path, "".join(map(_line, records)))
        return records

    @contextmanager
    def _disk_errors_for_users(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise UserError(
                f"cannot write {self.path}: {error.strerror}; free some space or choose another folder with --out"
            ) from error


class NullLogger:
    """Stands in for the log and the progress bar on ranks that neither write nor print."""

    def __init__(self) -> None:
        self.records: list[dict[str, float]] = []

    def __enter__(self) -> NullLogger:
        return self

    def __exit__(self, *_: object) -> None: ...

    def write(self, *_: Any) -> None: ...

    def sync(self) -> None: ...

    def update(self, *_: Any, **__: Any) -> None: ...

    def note(self, _: str) -> None: ...


def read_metrics(path: Path) -> list[dict[str, float]]:
    """The records of a metrics file, empty without one; a line cut off by a crash is left out. Raises UserError for a
    line that no run writes."""
    records: list[dict[str, float]] = []
    if not path.exists():
        return records
    for number, line in enumerate(path.read_bytes().splitlines(), start=1):
        try:
            record = json.loads(line.decode("utf-8"))
        except json.JSONDecodeError:
            break
        except (UnicodeDecodeError, RecursionError) as error:
            raise _no_record(path, number) from error
        if not _is_record(record):
            raise _no_record(path, number)
        records.append(_renamed(record))
    return records


def _is_record(record: Any) -> bool:
    return (
        isinstance(record, dict)
        and all(isinstance(value, int | float) for value in record.values())
        and isinstance(record.get("step"), int)
    )


def _no_record(path: Path, line: int) -> UserError:
    return UserError(
        f"{path}: line {line} is no record of a run (a table of numbers with their step); bring the file back as it "
        "was, or move it away to go on without the curves so far"
    )


def _renamed(record: dict[str, float]) -> dict[str, float]:
    """A record with today's names: exp(t) was logged as a temperature before it was called the logit scale."""
    return {BEFORE.get(name, name): value for name, value in record.items()}


def _line(record: Mapping[str, float]) -> str:
    return json.dumps(record) + "\n"
