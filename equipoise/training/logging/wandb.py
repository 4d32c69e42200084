"""Metrics for Weights & Biases, by its own package; offline unless WANDB_MODE says otherwise.

    <run>/wandb/offline-run-*     to be sent later, by `wandb sync`
    <run>/wandb/run-id            the id of the run, under which a resumed run goes on

Every record carries its own `step`, by which it is plotted: what a killed run logged beyond its checkpoint comes again
under the same steps. Nothing of the machine, its code or its packages is recorded.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from equipoise.training.logging.run_ids import keep_id, new_id, run_id

PROJECT, STEP = "equipoise", "step"


class WandbWriter:
    """Raises ImportError where wandb is not installed."""

    def __init__(self, folder: Path, settings: Mapping[str, Any]):
        import wandb

        own = folder / "wandb"
        own.mkdir(parents=True, exist_ok=True)
        name = run_id(own) or new_id()
        keep_id(own, name)
        self._run = wandb.init(
            dir=str(folder),
            project=os.environ.get("WANDB_PROJECT", PROJECT),
            name=folder.resolve().name,
            id=name,
            resume="allow",  # when files of one id are sent, each goes on where the one before it ended
            mode=_mode(),
            config=dict(settings),
            allow_val_change=True,
            settings=wandb.Settings(
                console="off", silent=True, disable_git=True, disable_code=True,
                x_disable_stats=True, x_disable_meta=True, x_save_requirements=False,
            ),
        )  # fmt: skip
        self._run.define_metric(STEP)
        self._run.define_metric("*", step_metric=STEP)

    def write(self, step: int, values: Mapping[str, float]) -> None:
        self._run.log({STEP: step, **values})

    def close(self) -> None:
        self._run.finish()


def _mode() -> Any:
    return os.environ.get("WANDB_MODE", "offline")
