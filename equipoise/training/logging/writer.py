"""Writers of metrics beside metrics.jsonl: what they have in common, and which there are."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from equipoise.types import UserError

LOGGERS = ("tensorboard", "wandb", "mlflow")


class Writer(Protocol):
    def write(self, step: int, values: Mapping[str, float]) -> None: ...

    def close(self) -> None: ...


class LastingWriter:
    """A writer whose failure ends nothing: metrics.jsonl has all that it would have had."""

    def __init__(self, name: str, writer: Writer):
        self.name, self._writer = name, writer
        self._has_failed = False

    def write(self, step: int, values: Mapping[str, float]) -> None:
        if self._has_failed:
            return
        try:
            self._writer.write(step, values)
        except Exception as error:  # of the package's own kinds; a lost connection is an OSError, and no full disk
            self._tell(error)

    def close(self) -> None:
        try:
            self._writer.close()
        except Exception as error:
            self._tell(error)

    def _tell(self, error: Exception) -> None:
        self._has_failed = True
        warnings.warn(
            f"{self.name} takes no more metrics ({first_line(error)}); training goes on and metrics.jsonl has them all",
            stacklevel=3,
        )


def open_writers(names: tuple[str, ...], folder: Path, step: int, settings: Mapping[str, Any]) -> list[Writer]:
    """Writers of a run in `folder` that goes on after `step`; `settings` are shown beside its metrics. Raises UserError
    where the package of one is missing, but for TensorBoard's, which writes where it is installed."""
    found = ((name, _opened(name, folder, step, settings)) for name in names)
    return [writer if name == "tensorboard" else LastingWriter(name, writer) for name, writer in found if writer]


def _opened(name: str, folder: Path, step: int, settings: Mapping[str, Any]) -> Writer | None:
    if name == "tensorboard":
        from equipoise.training.logging.tensorboard import TensorBoardWriter

        try:
            return TensorBoardWriter(folder / name, step)
        except ImportError:
            return None  # an extra: `pip install equipoise[tensorboard]`; metrics.jsonl has everything
    from equipoise.training.logging.mlflow import MLflowWriter
    from equipoise.training.logging.wandb import WandbWriter

    made = WandbWriter if name == "wandb" else MLflowWriter
    try:
        return made(folder, settings)
    except ImportError as error:
        raise UserError(
            f"training.loggers names {name}, which is not installed; pip install 'equipoise[{name}]', or leave it out"
        ) from error
    except UserError:
        raise
    except Exception as error:
        raise UserError(
            f"{name} cannot take the metrics of the run in {folder}: {first_line(error)}; mend that, or leave {name} "
            "out of training.loggers"
        ) from error


def first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
