"""Fine-tuning of a cell's start model, and what is measured of both: the new data, the former, shifts that neither has
seen, embedding arithmetic."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from equipoise.claims.arenas import UNSEEN
from equipoise.config import Run, dump, load_layers, load_stored
from equipoise.data.scenes import Scenes
from equipoise.data.scenes.gallery import Gallery
from equipoise.data.scenes.simat_questions import SimatSettings, scene_transformations
from equipoise.data.simat_questions import Transformations
from equipoise.evaluation.evaluate import validate
from equipoise.evaluation.shift_sweep import measure_direction
from equipoise.evaluation.simat.sweep import simat
from equipoise.finetuning.comparison import START, TUNED, DidNotHelp
from equipoise.finetuning.layers import finetuning_layers
from equipoise.finetuning.methods import METHODS
from equipoise.models.embedding_shift import EmbeddingShift
from equipoise.models.folder import CONFIG, model_folder, save_model
from equipoise.models.model import Model
from equipoise.training.device import torch_device
from equipoise.training.logging.metrics import METRICS_FILE, read_metrics
from equipoise.workflows.claims.cell import Cell
from equipoise.workflows.claims.measure import of_log
from equipoise.workflows.finetune import finetune
from equipoise.workflows.finetune_measure import FORMER
from equipoise.workflows.finetune_select import tuned_folder
from equipoise.workflows.load import load
from equipoise.workflows.start_model import Start, load_start

FINETUNE, OPENED = "finetune", "opened"  # kinds of cells
SPLITS = {"validation": "validation", "test": "test", FORMER: "former"}
SOURCES = 200  # scenes of dev and of test that SIMAT asks to change, where there are as many


def tuned(cell: Cell, folder: Path, place: Path) -> dict[str, float] | None:
    """`SPLIT/start/...` and `SPLIT/tuned/...` of validation, test and former data, of scenes also of unseen shifts
    (`test/start_shifted/...`) and SIMAT; None for a run that a signal ended."""
    assert cell.start, "fine-tuning needs a start"
    begins, out = cell.start.model_folder(folder), place / "run"
    table = load_stored(model_folder(begins) / CONFIG).table
    run = load_layers(*finetuning_layers(str(begins), table, cell.recipe, cell.method, cell.settings)).run
    if cell.kind == OPENED:
        start, begins = load_start(begins), place / "opened"
        open_gap(start, run, begins)
    try:
        status = finetune(begins, cell.recipe, cell.method, list(cell.settings), out)
    except DidNotHelp:  # that is a finding too
        status = 0
    if status:
        return None
    told = json.loads((out / "tuning.json").read_text(encoding="utf-8"))["numbers"]
    found = {
        f"{split}/{stage}/{key}": value
        for data, split in SPLITS.items()
        for stage, values in told.get(data, {}).items()
        for key, value in values.items()
    }
    if isinstance(run.data, Scenes.Config):
        ended = tuned_folder(out) if METHODS[cell.method].trains else out
        for stage, path in ((START, begins), (TUNED, ended)):
            found |= of_scenes(load(path, torch_device("auto")), run, run.data, stage)
    return found | of_log(read_metrics(out / METRICS_FILE))


def open_gap(start: Start, run: Run, place: Path) -> None:
    """Write the start model with images and texts moved along the gap of the run's training data by `shift.amount`:
    below 0 apart, which puts mixes of a pair closer to other texts than its own (`models/embedding_shift.py`)."""
    model, amount = start.model.to(torch_device("auto")), run.shift.amount
    if amount:
        direction, _ = measure_direction(model, run.data.build("train"), run.evaluation.batch_size)
        model.shift = EmbeddingShift(amount, direction)
    table = {**start.table, "shift": {**start.table["shift"], "amount": amount}}
    save_model(model.cpu(), place, dump(table), start.metrics)


def of_scenes(model: Model, run: Run, data: Scenes.Config, stage: str) -> dict[str, float]:
    """Retrieval in worlds that are shifted otherwise, the mean over them; embedding arithmetic in the upright one."""
    worlds = [replace(data, shift=name).build("test") for name in UNSEEN]
    each = [validate(model, world, run.evaluation, ("retrieval",)) for world in worlds]
    found = {f"test/{stage}_shifted/{key}": sum(one[key] for one in each) / len(each) for key in each[0]}
    asked, gallery = _transformations(replace(data, shift="none"), min(SOURCES, data.test_size))
    return found | {f"test/{stage}/{key}": value for key, value in simat(model, asked, gallery).items()}


@lru_cache(maxsize=2)
def _transformations(data: Scenes.Config, sources: int) -> tuple[Transformations, Gallery]:
    """Drawn once for the cells of a seed that a process makes."""
    return scene_transformations(data, SimatSettings(sources))
