"""A cell of the noise bench: a row trained with one seed, and what its judges said."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import torch
from cells import Row, numbers
from noise_judged import SharedJudges, made, on_kept, seconds_of, with_seed
from noise_rows import BOUND, STOPPED, TOLD

from equipoise.config import Loaded, load_run
from equipoise.data.keep.file import NOTE
from equipoise.io.atomic import write_text
from equipoise.models.folder import BEST, CHECKPOINTS
from equipoise.models.model import Model
from equipoise.ops.tf32 import tf32_products
from equipoise.training.device import torch_device
from equipoise.training.distributed.ranks import Ranks
from equipoise.workflows import train_run
from equipoise.workflows.audit.folds import training_pairs
from equipoise.workflows.audit.stopwatch import seconds_spent
from equipoise.workflows.claims.right_pairs import right_captions, with_right_pairs
from equipoise.workflows.clean import run as cleaning
from equipoise.workflows.clean.online import train_online
from equipoise.workflows.clean.training import FOLDER, with_clean_pairs
from equipoise.workflows.load import load


@contextmanager
def _told(loaded: Loaded) -> Iterator[None]:
    """Let the judges of the next round learn from what is truly right, whatever was found."""
    right = right_captions(training_pairs(loaded.run))
    with patch.object(cleaning, "_chosen", lambda _, settings, __: [right] * settings.judges):
        yield


def measure(
    row: Row,
    seed: int,
    extra: Sequence[str],
    file: Path,
    split: str = "test",
    relevance: str = "",
    judges: SharedJudges | None = None,
    tf32: bool = False,
) -> str:
    """Train a cell, evaluate it on a split, write down what it gives and what judging cost. A trial keeps what it finds
    on test images beside, unread until its rate is chosen. `relevance` is of the test images."""
    torch.set_num_threads(1)
    loaded = load_run(row.recipe, with_seed(row, extra, seed))
    with TemporaryDirectory() as place, tf32_products(tf32):
        shared = judges if judges and judges.judge(row) else None
        model, about = _trained(row, loaded, Path(place), partial(shared.judged, row, seed, extra) if shared else None)
        about |= {"judged": shared.said(row, seed, extra)} if shared else {}
        judged_by = relevance or loaded.run.evaluation.relevance
        tested = replace(loaded.run, evaluation=replace(loaded.run.evaluation, relevance=judged_by))
        found = {"found": numbers(model, tested if split == "test" else loaded.run, split)}
        if split != "test":
            found["test"] = numbers(model, tested, "test")
    ways = {**({"tf32": True} if tf32 else {}), **({"judges": "shared", **shared.read(row)} if shared else {})}
    device = torch_device(loaded.run.training.device)
    write_text(file, json.dumps({**made(row, seed, extra, device), **ways, **about, **found}, indent=1) + "\n")
    seconds = about["seconds"]
    return f"{file.stem}, {seconds['judging']:.0f} s of judging, {seconds['training']:.0f} s of training"


def _trained(row: Row, loaded: Loaded, place: Path, judged: Callable[[], Path] | None) -> tuple[Model, dict[str, Any]]:
    """The model of a cell, with what its judges said and the seconds of both; `judged` gives the folder of judges that
    are shared."""
    right = with_right_pairs(loaded) if row.name.endswith(BOUND) else loaded
    start, folder = time.perf_counter(), place / FOLDER
    if judged:
        folder = judged()
        cleaned, judging = on_kept(loaded, folder), seconds_of(folder)
        start = time.perf_counter() - judging
    else:
        with _told(loaded) if row.name.endswith(TOLD) else nullcontext():
            cleaned = with_clean_pairs(right, place, Ranks())
        judging = time.perf_counter() - start
    online = cleaned.run.clean.enabled and cleaned.run.clean.online
    _, model, outcome = train_online(cleaned, place, Ranks()) if online else (cleaned, *train_run(cleaned, place))
    if outcome.signal or model is None:  # half a run is no cell
        raise SystemExit(128 + outcome.signal)
    judging += sum(seconds_spent(folder).values()) if online else 0.0
    model = load(place / CHECKPOINTS / BEST) if row.name.endswith(STOPPED) else model
    said = json.loads((folder / NOTE).read_text()) if (folder / NOTE).exists() else {}
    return model, {"seconds": {"judging": judging, "training": time.perf_counter() - start - judging}, "judged": said}
