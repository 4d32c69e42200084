"""What was measured, step by step: one JSON object a line in `metrics.jsonl`, and TensorBoard where it is installed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from types import TracebackType

from equipoise.training.events import EventFile
from equipoise.types import UserError

METRICS_FILE = "metrics.jsonl"


class MetricsLog:
    def __init__(self, folder: Path):
        self.path = folder / METRICS_FILE
        self.records: list[dict[str, float]] = []
        self._files = ExitStack()
        with self._disk_errors_in_a_sentence():
            folder.mkdir(parents=True, exist_ok=True)
            self._file = self._files.enter_context(self.path.open("w", encoding="utf-8"))
            self._board = _tensorboard(folder)
        if self._board:
            self._files.enter_context(closing(self._board))

    def __enter__(self) -> MetricsLog:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        with suppress(OSError):  # all is flushed when written; what cannot be closed was complained of then
            self._files.close()

    def write(self, step: int, values: Mapping[str, float]) -> None:
        record = {"step": step, **values}
        self.records.append(record)
        with self._disk_errors_in_a_sentence():
            self._file.write(json.dumps(record) + "\n")
            self._file.flush()
            if self._board:
                self._board.write(step, values)

    @contextmanager
    def _disk_errors_in_a_sentence(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise UserError(
                f"cannot write {self.path}: {error.strerror}; free some space or choose another folder with --out"
            ) from error


def read_metrics(path: Path) -> list[dict[str, float]]:
    """The records of a metrics file; a line cut off by a crash is left out."""
    records = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            records.append(json.loads(line))
        except json.JSONDecodeError:
            break
    return records


def _tensorboard(folder: Path) -> EventFile | None:
    try:
        return EventFile(folder / "tensorboard")
    except ImportError:
        return None  # an extra: `pip install equipoise[tensorboard]`; metrics.jsonl has everything
