"""`equipoise probe`: a linear classifier, or neighbours, on the features of a frozen image encoder.

A recipe brings its own splits. Files are the training data; a tenth of each class is held out to choose C, and the test
data is named with --test.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from equipoise.data.rng import generator
from equipoise.data.source import LabelledSource, Source, is_labelled
from equipoise.evaluation.encoding import labels
from equipoise.evaluation.knn_probe import knn_chance, probe_knn
from equipoise.evaluation.linear_probe import Labelled, LinearProbe, joined, probe_chance, probe_lbfgs, require_classes
from equipoise.evaluation.metrics import percent
from equipoise.evaluation.results import table, write_results
from equipoise.evaluation.sgd_probe import MOCO_V3, RATES, SGD, probe_sgd, probe_sgd_sweep
from equipoise.io.numbers import hand_over
from equipoise.io.progress import Progress
from equipoise.io.tables import print_tables
from equipoise.models.compatibility import require_compatible
from equipoise.models.modal_model import ModalModel
from equipoise.models.model import Model
from equipoise.types import UserError
from equipoise.workflows.embed.encoders import what_is_read
from equipoise.workflows.embed.write import ImageSide
from equipoise.workflows.load import load
from equipoise.workflows.probe_modalities import chosen_modalities, modal_features
from equipoise.workflows.subject import find_source, names_files

HELD_OUT = 0.1
BATCH = 256
FITS = 16  # of the sweep, with the last one; one or two fewer where the best C lies at an end
LBFGS, SGD_ONCE, SGD_SWEEP, KNN = PROTOCOLS = ("lbfgs", "sgd", "sgd-sweep", "knn")
SWEPT = {LBFGS: "C", SGD_SWEEP: "learning rate", KNN: "neighbours"}


@dataclass(frozen=True)
class ProbeRequest:
    model: Path
    data: str
    overrides: Sequence[str] = ()
    test: str = ""  # further files, where `data` is files
    protocol: str = LBFGS  # one of PROTOCOLS
    seed: int = 0
    points: bool = False  # what the readout gives, instead of what it reads
    by: str = ""  # modalities of a model of named ones; empty: all together


def probe_folder(request: ProbeRequest, out: Path | None) -> LinearProbe:
    """Probe a model on data; print, and write JSON to `out` if there is one."""
    model, classes, parts = probed_features(request)
    found = _probe(request, parts)
    read = what_was_read(request, model)
    chance = (knn_chance if request.protocol == KNN else probe_chance)(len(classes))
    _print(found, request, chance, parts, read)
    if out is not None:
        _write(found, request, chance, parts, read, out)
    return found


def probed_features(request: ProbeRequest) -> tuple[Model, Sequence[str], tuple[Labelled, Labelled, Labelled]]:
    """The model, the names of the classes, and features to train, validate and test on."""
    files = _is_files(request)
    model = load(request.model, "auto")
    if isinstance(model, ModalModel):
        return model, *modal_features(model, request.data, request.overrides, request.by)
    if request.by:
        raise UserError("--by belongs to models of named modalities, and this one reads images and texts; leave it out")
    return model, *_features(model, request, files)


def what_was_read(request: ProbeRequest, model: Model) -> str:
    if isinstance(model, ModalModel):
        return f"points of {' and '.join(chosen_modalities(model, request.by))}"
    return "points" if request.points else what_is_read(model)


def _probe(request: ProbeRequest, parts: tuple[Labelled, Labelled, Labelled]) -> LinearProbe:
    if request.protocol == KNN:
        return probe_knn(*parts)
    if request.protocol == SGD_ONCE:
        return probe_sgd(joined(parts[0], parts[1]), parts[2], SGD(seed=request.seed))
    fits = FITS if request.protocol == LBFGS else len(RATES) + 1
    with Progress(fits, "fitting") as progress:
        done = iter(range(1, fits + 1))

        def on_fit() -> None:
            progress.update(next(done, fits))

        if request.protocol == LBFGS:
            return probe_lbfgs(*parts, on_fit=on_fit)
        return probe_sgd_sweep(*parts, settings=replace(MOCO_V3, seed=request.seed), on_fit=on_fit)


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
    train = labelled_source(request.data, request.overrides, "train")
    test = labelled_source(request.test or request.data, request.overrides, "test")
    if train.class_names != test.class_names:
        raise UserError(f"the classes to train on ({_some(train)}) and to test on ({_some(test)}) are not the same")
    require_classes(labels(train)[1])  # before the features are computed
    known = labelled_features(model, train, "training data", request.points)
    if files:
        known, validation = hold_out(known, HELD_OUT, request.seed)
    else:
        held_out = labelled_source(request.data, request.overrides, "validation")
        validation = labelled_features(model, held_out, "validation data", request.points)
    return train.class_names, (known, validation, labelled_features(model, test, "test data", request.points))


def labelled_source(data: str, overrides: Sequence[str], split: str) -> LabelledSource:
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


def _print(
    found: LinearProbe, request: ProbeRequest, chance: dict[str, float], parts: Sequence[Labelled], read: str
) -> None:
    print_tables(table(found.metrics, chance, "nearest neighbours" if request.protocol == KNN else "linear probe"))
    hand_over({"metrics": found.metrics, "chance": chance, **_swept(found, request)})
    print(sizes_of(parts, read))
    if found.chosen is not None:
        curve = "  ".join(f"{value:.3g}: {percent(accuracy)}" for value, accuracy in found.sweep)
        what = SWEPT[request.protocol]
        print(f"{what} = {found.chosen:.3g} was chosen on validation; the sweep, accuracy by {what}:\n{curve}")


def sizes_of(parts: Sequence[Labelled], read: str) -> str:
    """The line that says what was probed."""
    sizes = [f"{len(part.classes):,}" for part in parts]
    width = parts[0].features.shape[1]
    return f"{width} features ({read}); {sizes[0]} records to train, {sizes[1]} to choose, {sizes[2]} to test"


def _swept(found: LinearProbe, request: ProbeRequest) -> dict[str, Any]:
    """What was chosen under its name (C of L-BFGS, None elsewhere), and the sweep."""
    named = {SWEPT[request.protocol].replace(" ", "_"): found.chosen} if found.chosen is not None else {}
    return {"C": None, **named, "sweep": [list(pair) for pair in found.sweep]}


def _write(
    found: LinearProbe,
    request: ProbeRequest,
    chance: dict[str, float],
    parts: Sequence[Labelled],
    read: str,
    out: Path,
) -> None:
    extras: dict[str, Any] = {
        "chance": chance, "protocol": request.protocol, "seed": request.seed, **_swept(found, request),
        "records": [len(p.classes) for p in parts], "features": read, **({"by": request.by} if request.by else {}),
    }  # fmt: skip
    path = write_results(
        out / f"linear_probe_{request.protocol}.json", dataset=request.data, model=str(request.model), pretrained="",
        task="linear_probe", metrics=found.metrics, extras=extras,
    )  # fmt: skip
    print(f"\nThe results are in {path}")


def _some(source: LabelledSource) -> str:
    names = ", ".join(source.class_names[:3])
    return f"{len(source.class_names)}: {names}{', ...' if len(source.class_names) > 3 else ''}"
