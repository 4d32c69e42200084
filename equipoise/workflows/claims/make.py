"""Making a cell: train or fine-tune by its settings, measure, write down. Runs in a process of its own."""

from __future__ import annotations

import json
import os
import time
import warnings
from collections.abc import Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from equipoise import __version__
from equipoise.claims.explanations import KIND as EXPLAINED
from equipoise.config import load_run
from equipoise.data.keep.file import NOTE
from equipoise.io.atomic import write_text
from equipoise.io.progress import quiet
from equipoise.ops.tf32 import tf32_products
from equipoise.training.device import choosing_device, torch_device
from equipoise.training.distributed.ranks import Ranks
from equipoise.training.finite import NotFinite
from equipoise.types import UserError
from equipoise.workflows.claims.cell import START, Cell, as_text
from equipoise.workflows.claims.explained import explanations
from equipoise.workflows.claims.measure import measured
from equipoise.workflows.claims.right_pairs import with_right_pairs
from equipoise.workflows.claims.tuned import FINETUNE, OPENED, tuned
from equipoise.workflows.clean.training import FOLDER, with_clean_pairs
from equipoise.workflows.train import run_recipe
from equipoise.workflows.train_model import train_run

FLOAT32 = "training.precision=float32"
MODELS = 64  # that one process may compile before torch gives up compiling and goes on without


@dataclass(frozen=True)
class Ways:
    """How a GPU computes the cells: faster, and rounded in another order."""

    tf32: bool = False
    cuda_graphs: bool = False
    compiled: bool = False

    def told(self) -> str:
        return ", products in TF32" * self.tf32 + ", CUDA graphs" * self.cuda_graphs + ", compiled" * self.compiled


PLAIN = Ways()
NOWHERE: Mapping[str, Path] = {}  # no folders of data


class Stopped(UserError):
    """Raised for a run that a signal ended: half a run is no cell."""


def make_cell(
    cell: Cell,
    folder: Path,
    device: str,
    commit: str,
    folders: Mapping[str, Path] = NOWHERE,
    ways: Ways = PLAIN,
) -> str:
    """Make the cell and write its file; returns what went wrong, in a sentence, or nothing.

    A run that diverged is a finding, and written down as one; any other mistake is not.
    """
    torch.set_num_threads(1)
    if ways.compiled:
        torch._dynamo.config.recompile_limit = MODELS
    began = time.perf_counter()
    about = {"recipe": cell.recipe, "settings": cell.settings, "kind": cell.kind, "seed": cell.seed,
             "method": cell.method, "start": cell.start.name if cell.start else ""}  # fmt: skip
    with choosing_device(device), quiet(), warnings.catch_warnings(), open(os.devnull, "w") as nowhere:
        warnings.simplefilter("ignore")
        with redirect_stdout(nowhere):
            try:
                with tf32_products(ways.tf32):  # what is measured too
                    outcome: dict[str, Any] = {"found": _found(cell, _as_run(cell, folders, ways), folder)}
            except UserError as error:
                if not isinstance(error.__cause__, NotFinite):
                    return str(error)
                outcome = {"found": {}, "failed": str(error)}
            except Exception as error:  # want of memory, say: told, while the other cells go on
                return f"{type(error).__name__}: {str(error)[:300]}"
        about |= {"device": _device_name(torch_device("auto")) + ways.told(), "version": __version__, "commit": commit}
    about |= {"date": datetime.now(UTC).date().isoformat(), "seconds": round(time.perf_counter() - began, 1)}
    write_text(cell.file(folder), as_text({**about, **outcome}))
    return ""


def _as_run(cell: Cell, folders: Mapping[str, Path], ways: Ways) -> Cell:
    """The cell as this machine runs it. A cell is named without that, so that its data may lie elsewhere the next time;
    the ways are written beside its device."""
    changed = {f"{{{name}}}": str(path) for name, path in folders.items()} | (
        {FLOAT32: FLOAT32.replace("float32", "tf32")} if ways.tf32 else {}
    )
    settings = cell.settings
    for old, new in changed.items():
        settings = tuple(text.replace(old, new) for text in settings)
    settings += ("training.cuda_graphs=true",) * ways.cuda_graphs + ("training.compile=true",) * ways.compiled
    return replace(cell, settings=settings)


def _found(named: Cell, cell: Cell, folder: Path) -> dict[str, float]:
    if cell.kind == START:
        return _start(cell, named.model_folder(folder))
    with TemporaryDirectory() as place:
        is_tuned = cell.kind in (FINETUNE, OPENED)
        return _tuned(cell, folder, Path(place)) if is_tuned else _trained(cell, Path(place))


def _trained(cell: Cell, place: Path) -> dict[str, float]:
    loaded = load_run(cell.recipe, cell.settings)
    given = with_right_pairs(loaded) if cell.kind == "right_pairs" else with_clean_pairs(loaded, place, Ranks())
    model, outcome = train_run(given, place)
    if outcome.signal:
        raise Stopped("it was stopped by a signal")
    note = place / FOLDER / NOTE
    truth = json.loads(note.read_text(encoding="utf-8")).get("truth", {}) if note.exists() else {}
    found = measured(model, loaded.run, outcome) | {f"judged/{key}": value for key, value in truth.items()}
    return found | (explanations(model, loaded.run, cell.seed) if cell.kind == EXPLAINED else {})


def _start(cell: Cell, place: Path) -> dict[str, float]:
    if run_recipe(cell.recipe, cell.settings, place, "", resume=True):
        raise Stopped("it was stopped by a signal")
    told = json.loads((place / "metrics.json").read_text(encoding="utf-8"))
    return {key: value for key, value in told.items() if isinstance(value, float)}


def _tuned(cell: Cell, folder: Path, place: Path) -> dict[str, float]:
    found = tuned(cell, folder, place)
    if found is None:
        raise Stopped("it was stopped by a signal")
    return found


def _device_name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
