"""`equipoise shift`: move image and text embeddings towards each other (`models/embedding_shift.py`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from equipoise.analysis.report import AnalysisReport
from equipoise.config import Loaded, dump
from equipoise.data.remap import subset
from equipoise.data.rng import generator
from equipoise.data.source import Source
from equipoise.data.unreadable_pictures import readable_pictures
from equipoise.evaluation.encoding import has_captions
from equipoise.evaluation.metrics import percent
from equipoise.evaluation.settings import Evaluation
from equipoise.evaluation.shift_sweep import GRIDS, ShiftSweep, draw_shift, require_shiftable, sweep_shift
from equipoise.io.progress import Progress
from equipoise.models.embedding_shift import EmbeddingShift
from equipoise.models.folder import save_model
from equipoise.models.model import Model
from equipoise.training.device import torch_device
from equipoise.types import UserError
from equipoise.workflows.convert import require_new
from equipoise.workflows.load import load_with_settings
from equipoise.workflows.own_files import RECIPE
from equipoise.workflows.subject import find_run


@dataclass(frozen=True)
class ShiftRequest:
    """The options of the sweep."""

    amounts: tuple[float, ...] = GRIDS["paper"]
    metric: str = ""  # of the validation data; the highest wins; mean_recall, of class data acc1, where none is named
    pairs: int = 0  # of the training data that the direction is measured on; 0: all
    seed: int = 0  # of which these are

    def __post_init__(self) -> None:
        if self.pairs < 0:
            raise UserError(f"--pairs must be at least 0, not {self.pairs}; 0 takes all")
        if not self.amounts:
            raise UserError("there is no amount to try; give some")


def shift_model(
    path: str | Path,
    data: str,
    overrides: Sequence[str],
    out: Path,
    chosen: ShiftRequest | None = None,
    device: str = "auto",
    command: str = "",
) -> ShiftSweep:
    """Write to `out` the model at `path` with the shift that is best for a recipe's validation data; the direction is
    that of its training data. Beside the model: shift.json and shift.png, with what every amount made of it."""
    require_new(out)
    run = find_run(data, RECIPE, overrides, "divided").run
    model, loaded = load_with_settings(path, torch_device(device))
    require_shiftable(model)
    sweep = find_shift(model, run.data.build("train"), run.data.build("validation"), run.evaluation, chosen)
    write_shifted(model, loaded, sweep, out, {"model": str(path), "data": data, "set": list(overrides)}, command)
    return sweep


def find_shift(
    model: Model, train: Source, validation: Source, evaluation: Evaluation, chosen: ShiftRequest | None = None
) -> ShiftSweep:
    """Sweep the amounts for a model in memory."""
    chosen = chosen or ShiftRequest()
    metric = chosen.metric or ("mean_recall" if has_captions(validation) else "acc1")
    some = readable_pictures(_some(train, chosen))
    with Progress(len(some), "measuring") as progress:
        return sweep_shift(
            model, some, validation, evaluation,
            amounts=chosen.amounts, metric=metric, on_progress=progress.update,
        )  # fmt: skip


def apply_shift(model: Model, loaded: Loaded, sweep: ShiftSweep) -> str:
    """Shift the model, in place, by the best amount; returns the settings that describe it now."""
    amount = sweep.best
    model.shift = EmbeddingShift(amount, sweep.direction.clone()) if amount else None
    return dump({**loaded.table, "shift": {**loaded.table["shift"], "amount": amount}})


def write_shifted(
    model: Model, loaded: Loaded, sweep: ShiftSweep, out: Path, facts: dict[str, object], command: str = ""
) -> None:
    """Write the folder of the shifted model, with the sweep beside it."""
    config = apply_shift(model, loaded, sweep)
    metrics = {"shift/amount": sweep.best, f"validation/{sweep.metric}": sweep.at(sweep.best)}
    save_model(model, out, config, metrics)
    conclusion = sentence(sweep)
    numbers = {
        **facts, "metric": sweep.metric, "pairs": sweep.pairs, "gap": sweep.gap, "best": sweep.best,
        "amounts": list(sweep.amounts), "values": list(sweep.values),
    }  # fmt: skip
    figure = draw_shift(sweep.amounts, sweep.values, sweep.best, sweep.metric, conclusion)
    AnalysisReport("shift", conclusion, numbers, figure).write(out, command)


def sentence(sweep: ShiftSweep) -> str:
    before, after = (_shown(sweep, amount) for amount in (0.0, sweep.best))
    measured = f"The means of images and texts are {sweep.gap:.3g} apart"
    if not sweep.best:
        return f"{measured}; no shift is better than none ({sweep.metric} {before} on validation data)."
    way = "closer" if sweep.best > 0 else "further apart"
    gained = f"takes {sweep.metric} on validation data from {before} to {after}"
    return f"{measured}; a shift by {sweep.best:g}, {way}, {gained}."


def _shown(sweep: ShiftSweep, amount: float) -> str:
    value = sweep.at(amount)
    return f"{value:.1f}" if sweep.metric == "rsum" else percent(value)


def _some(train: Source, chosen: ShiftRequest) -> Source:
    if not chosen.pairs or chosen.pairs >= len(train):
        return train
    drawn = torch.randperm(len(train), generator=generator(chosen.seed, "shift"))[: chosen.pairs]
    return subset(train, sorted(drawn.tolist()))
