"""Metrics for MLflow, by its own package; to a database within the run unless MLFLOW_TRACKING_URI says otherwise.

    <run>/mlflow/mlflow.db     shown by `mlflow ui --backend-store-uri sqlite:///<run>/mlflow/mlflow.db`
    <run>/mlflow/run-id        the id of the run, under which a resumed run goes on

MLflow takes no metric back, so a resumed run logs only steps that are not there yet: it comes to the same numbers.
"""

from __future__ import annotations

import logging
import os
import re
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from equipoise.training.logging.run_ids import keep_id, run_id

EXPERIMENT = "equipoise"
LONGEST = 500  # characters of a parameter, in MLflow's oldest limit
AT_ONCE = 100  # parameters that MLflow takes in one call


class MLflowWriter:
    """Raises ImportError where mlflow is not installed."""

    def __init__(self, folder: Path, settings: Mapping[str, Any]):
        from mlflow.tracking import MlflowClient

        logging.getLogger("mlflow.store.db.utils").setLevel(logging.WARNING)  # tells of every table it makes
        own = folder / "mlflow"
        own.mkdir(parents=True, exist_ok=True)
        self._client = MlflowClient(tracking_uri=os.environ.get("MLFLOW_TRACKING_URI") or _database(own))
        found = run_id(own)
        self._id = found or self._created(own, folder.resolve().name, settings)
        keep_id(own, self._id)
        self._last = self._last_steps() if found else {}
        self._client.update_run(self._id, status="RUNNING")

    def write(self, step: int, values: Mapping[str, float]) -> None:
        from mlflow.entities import Metric

        now, named = int(1000 * time.time()), {metric_name(name): value for name, value in values.items()}
        fresh = [Metric(name, value, now, step) for name, value in named.items() if step > self._last.get(name, -1)]
        if fresh:
            self._client.log_batch(self._id, metrics=fresh)

    def close(self) -> None:
        self._client.set_terminated(self._id)

    def _created(self, own: Path, name: str, settings: Mapping[str, Any]) -> str:
        from mlflow.entities import Param

        client = self._client
        known = client.get_experiment_by_name(EXPERIMENT)
        place = None if os.environ.get("MLFLOW_TRACKING_URI") else (own / "artifacts").resolve().as_uri()
        experiment = known.experiment_id if known else client.create_experiment(EXPERIMENT, artifact_location=place)
        made = str(client.create_run(experiment, run_name=name).info.run_id)
        params = [Param(metric_name(key), str(value)[:LONGEST]) for key, value in _flat(settings)]
        for start in range(0, len(params), AT_ONCE):
            client.log_batch(made, params=params[start : start + AT_ONCE])
        return made

    def _last_steps(self) -> dict[str, int]:
        names = self._client.get_run(self._id).data.metrics
        return {name: max(one.step for one in self._client.get_metric_history(self._id, name)) for name in names}


def metric_name(name: str) -> str:
    """A name in the letters that MLflow allows: R@1 becomes R_at_1."""
    return re.sub(r"[^\w\-. :/]", "_", name.replace("@", "_at_"))


def _database(folder: Path) -> str:
    return f"sqlite:///{(folder / 'mlflow.db').resolve()}"


def _flat(settings: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in settings.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value
