"""What was measured, step by step: one JSON object a line in `metrics.jsonl`, and TensorBoard where it is installed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from equipoise.types import UserError

METRICS_FILE = "metrics.jsonl"


class MetricsLog:
    def __init__(self, folder: Path):
        self.path = folder / METRICS_FILE
        self.records: list[dict[str, float]] = []
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._file = self.path.open("w", encoding="utf-8")
        except OSError as error:
            raise UserError(f"cannot write {self.path}: {error.strerror}; choose another folder with --out") from error
        self._board = _tensorboard(folder)

    def __enter__(self) -> MetricsLog:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._file.close()
        if self._board:
            self._board.close()

    def write(self, step: int, values: Mapping[str, float]) -> None:
        record = {"step": step, **values}
        self.records.append(record)
        try:
            self._file.write(json.dumps(record) + "\n")
            self._file.flush()
        except OSError as error:
            raise UserError(f"cannot write {self.path}: {error.strerror}; free some space and start again") from error
        if self._board:
            for name, value in values.items():
                self._board.add_scalar(name, value, step)


def read_metrics(path: Path) -> list[dict[str, float]]:
    """The records of a metrics file; a line cut off by a crash is left out."""
    records = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            records.append(json.loads(line))
        except json.JSONDecodeError:
            break
    return records


def _tensorboard(folder: Path) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        return None  # an extra: `pip install equipoise[tensorboard]`; metrics.jsonl has everything
    return SummaryWriter(str(folder / "tensorboard"))  # type: ignore[no-untyped-call]
