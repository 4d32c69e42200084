"""`equipoise probe`: a linear classifier on the features of a frozen image encoder.

A recipe brings its own splits. Files are the training data; a tenth of each class is held out to choose C, and the test
data is named with --test.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from equipoise.data.rng import generator
from equipoise.data.source import LabelledSource, Source, is_labelled
from equipoise.evaluation.encoding import labels
from equipoise.evaluation.linear_probe import (
    Labelled,
    LinearProbe,
    probe_chance,
    probe_lbfgs,
    probe_sgd,
    require_classes,
)
from equipoise.evaluation.metrics import percent
from equipoise.evaluation.results import table, write_results
from equipoise.io.numbers import hand_over
from equipoise.io.progress import Progress
from equipoise.io.tables import print_tables
from equipoise.models.compatibility import require_compatible
from equipoise.models.model import Model
from equipoise.types import UserError
from equipoise.workflows.embed.encoders import what_is_read
from equipoise.workflows.embed.write import ImageSide
from equipoise.workflows.load import load
from equipoise.workflows.subject import find_source, names_files

HELD_OUT = 0.1
BATCH = 256
FITS = 16  # of the sweep, with the last one; one or two fewer where the best C lies at an end


@dataclass(frozen=True)
class ProbeRequest:
    model: Path
    data: str
    overrides: Sequence[str] = ()
    test: str = ""  # further files, where `data` is files
    sgd: bool = False
    seed: int = 0
    points: bool = False  # what the readout gives, instead of what it reads


def probe_folder(request: ProbeRequest, out: Path | None) -> LinearProbe:
    """Probe a model on data; print, and write JSON to `out` if there is one."""
    files = _is_files(request)
    model = load(request.model, "auto")
    classes, parts = _features(model, request, files)
    if request.sgd:
        found = probe_sgd(_joined(parts[0], parts[1]), parts[2])
    else:
        with Progress(FITS, "fitting") as progress:
            done = iter(range(1, FITS + 1))
            found = probe_lbfgs(*parts, on_fit=lambda: progress.update(next(done, FITS)))
    read = "points" if request.points else what_is_read(model)
    _print(found, len(classes), parts, read)
    if out is not None:
        _write(found, request, classes, parts, read, out)
    return found


def _is_files(request: ProbeRequest) -> bool:
    """Whether the data is files, which need others to test on, and not a recipe, which brings its own."""
    files = names_files(request.data)
    if files and not request.test:
        raise UserError(f"{request.data} is to train on; name the files to test on with --test")
    if request.test and not files:
        raise UserError("--test belongs to files; a recipe brings its own test split")
    return files


def _features(
    model: Model, request: ProbeRequest, files: bool
) -> tuple[Sequence[str], tuple[Labelled, Labelled, Labelled]]:
    """Names of the classes; features to train, validate and test on."""
    train = _labelled_source(request.data, request.overrides, "train")
    test = _labelled_source(request.test or request.data, request.overrides, "test")
    if train.class_names != test.class_names:
        raise UserError(f"the classes to train on ({_some(train)}) and to test on ({_some(test)}) are not the same")
    require_classes(labels(train)[1])  # before the features are computed
    known = labelled_features(model, train, "training data", request.points)
    if files:
        known, validation = hold_out(known, HELD_OUT, request.seed)
    else:
        held_out = _labelled_source(request.data, request.overrides, "validation")
        validation = labelled_features(model, held_out, "validation data", request.points)
    return train.class_names, (known, validation, labelled_features(model, test, "test data", request.points))


def _labelled_source(data: str, overrides: Sequence[str], split: str) -> LabelledSource:
    source: Source = find_source(data, overrides, split)[0]
    if not is_labelled(source) or all(source.pair(i).label is None for i in range(len(source))):
        raise UserError(f"the data of {data} has no classes; give class folders, classification shards or labels")
    return source


@torch.no_grad()
def labelled_features(model: Model, source: LabelledSource, what: str = "features", points: bool = False) -> Labelled:
    """What the image readout reads (class tokens, concatenated, or the mean over tokens), or the points that it gives,
    of the records that carry a label."""
    require_compatible(model, source)
    model.eval()
    indices, classes = labels(source)
    tower = model.tower("image")
    read = tower.read if points else tower.readout.before_projection
    side = ImageSide(model.image_encoder, model.preprocess, read)
    parts: list[Tensor] = []
    with Progress(len(indices), what) as progress:
        for start in range(0, len(indices), BATCH):
            chosen = indices[start : start + BATCH]
            parts.append(side(source, chosen).flatten(1).float().cpu())
            progress.update(start + len(chosen))
    return Labelled(torch.cat(parts), classes)


def hold_out(known: Labelled, share: float, seed: int) -> tuple[Labelled, Labelled]:
    """Split off a random share of every class, at least one record of a class of two: what stays, what is held out."""
    away = torch.zeros(len(known.classes), dtype=torch.bool)
    chance = generator(seed, "held out")
    for one in known.classes.unique():
        members = torch.nonzero(known.classes == one)[:, 0]
        count = max(round(share * len(members)), int(len(members) > 1))
        away[members[torch.randperm(len(members), generator=chance)[:count]]] = True
    return Labelled(*(part[~away] for part in known)), Labelled(*(part[away] for part in known))


def _joined(*parts: Labelled) -> Labelled:
    return Labelled(*(torch.cat(some) for some in zip(*parts, strict=True)))


def _print(found: LinearProbe, classes: int, parts: Sequence[Labelled], read: str) -> None:
    print_tables(table(found.metrics, probe_chance(classes), "linear probe"))
    hand_over({"metrics": found.metrics, "chance": probe_chance(classes), "C": found.chosen, "sweep": found.sweep})
    sizes = [f"{len(part.classes):,}" for part in parts]
    print(
        f"{parts[0].features.shape[1]} features ({read}); {sizes[0]} records to train, {sizes[1]} to choose, "
        f"{sizes[2]} to test"
    )
    if found.chosen is not None:
        curve = "  ".join(f"{c:.3g}: {percent(accuracy)}" for c, accuracy in found.sweep)
        print(f"C = {found.chosen:.3g} was chosen on validation; the sweep, accuracy by C:\n{curve}")


def _write(
    found: LinearProbe,
    request: ProbeRequest,
    classes: Sequence[str],
    parts: Sequence[Labelled],
    read: str,
    out: Path,
) -> None:
    extras: dict[str, Any] = {
        "chance": probe_chance(len(classes)), "protocol": "sgd" if request.sgd else "lbfgs", "seed": request.seed,
        "C": found.chosen, "sweep": [list(pair) for pair in found.sweep], "records": [len(p.classes) for p in parts],
        "features": read,
    }  # fmt: skip
    path = write_results(
        out / f"linear_probe_{extras['protocol']}.json", dataset=request.data, model=str(request.model), pretrained="",
        task="linear_probe", metrics=found.metrics, extras=extras,
    )  # fmt: skip
    print(f"\nThe results are in {path}")


def _some(source: LabelledSource) -> str:
    names = ", ".join(source.class_names[:3])
    return f"{len(source.class_names)}: {names}{', ...' if len(source.class_names) > 3 else ''}"
