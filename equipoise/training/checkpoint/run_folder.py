"""Whether a run may start in a folder, or go on in it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from equipoise.io.atomic import clear_leftovers
from equipoise.models.folder import CHECKPOINTS, CONFIG
from equipoise.settings.difference import differences, told
from equipoise.training.logging.metrics import METRICS_FILE
from equipoise.types import UserError

STEPS = "training.steps"
MAY_CHANGE = (  # none but the first touches a number of the run
    STEPS,
    *(f"training.{name}" for name in ("checkpoint_every", "checkpoint_minutes", "keep_last")),
    *(f"training.{name}" for name in ("workers", "loader_timeout", "rank_timeout")),
)


def holds_run(folder: Path) -> bool:
    return any((folder / name).exists() for name in (CONFIG, METRICS_FILE, CHECKPOINTS))


def require_new(folder: Path) -> None:
    if holds_run(folder):
        raise UserError(f"{folder} already holds a run; go on with it by --resume, or choose another folder with --out")
    clear_leftovers(folder)


def require_same(folder: Path, stored: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    """A run goes on with the settings it has, but may become longer, or be saved and fed in another way."""
    changes = differences(stored, wanted)
    if fixed := {key: change for key, change in changes.items() if key not in MAY_CHANGE}:
        raise UserError(f"{folder} holds a run with other settings, so it cannot be resumed: {told(fixed)}")
    before, now = changes.get(STEPS, (0, 0))
    if now < before:
        raise UserError(f"the run in {folder} has {STEPS} = {before}; it can be raised, but not lowered to {now}")
    clear_leftovers(folder)
