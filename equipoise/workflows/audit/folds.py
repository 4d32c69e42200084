"""Cross-validation: every pair is judged by a model that was trained on the other folds.

A model that was trained on a wrong pair has learned it by heart in the end, and calls it right.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from equipoise.config import Loaded, Run
from equipoise.data.caption_shuffle import Shuffle
from equipoise.data.copies.watch import WatchedSource
from equipoise.data.digest import source_digest
from equipoise.data.keep.settings import Keep
from equipoise.data.remap import subset
from equipoise.data.rng import generator
from equipoise.data.source import Source, can_crop, has_features, has_modalities, has_pictures
from equipoise.data.unreadable_pictures import BlankPictures
from equipoise.evaluation.evaluate import CHOOSING
from equipoise.io.atomic import remove_folder, write_text
from equipoise.models.folder import BEST, CHECKPOINTS, step_folders
from equipoise.training.checkpoint.finished_work import FOLD, TRAINED, is_trained, read_fold
from equipoise.training.settings import Training
from equipoise.types import UserError
from equipoise.workflows.audit.copies import held_together, read_pictures
from equipoise.workflows.audit.points import Judge
from equipoise.workflows.load import load
from equipoise.workflows.train_model import train_run

LOOKS = 12  # at the fold while a judge is trained, at least
OTHER = {  # what a judge was trained on, where what is noted beside it differs
    "data": "on other records or captions, in another order perhaps, or before the data was",
    "digest": "for another fold of the data, or before folds were",
}
QUICK = 1000  # pairs of the fold that show during training how far it has come


def training_pairs(run: Run) -> Source:
    """The data to audit, with the wrong captions that the recipe asks for; grey pictures stand for those that cannot be
    read."""
    source = run.training_pairs()
    if has_modalities(source):
        raise UserError(
            "pairs of images and texts are judged, and the data holds samples of named modalities; give data of pairs"
        )
    return BlankPictures(source) if can_crop(source) else source


@dataclass(frozen=True)
class HeldOutData:
    """The training data of a recipe without one fold, which serves as validation and test."""

    run: Run
    fold: tuple[int, ...]

    def build(self, split: str) -> Source:
        whole = training_pairs(self.run)
        if split != "train":
            held_out = subset(whole, self.fold[:QUICK] if split == "validation" else self.fold)
            held_out.relevance = None  # judges are chosen by the labels they judge, where the truth is known too
            return held_out
        if self.run.clean.seen:
            return whole
        others = np.ones(len(whole), dtype=bool)
        others[list(self.fold)] = False
        return subset(whole, np.flatnonzero(others))

    def digest(self) -> str:
        """A digest of the whole data, bounded as `data/digest.py` says: by it another order of the records shows, a few
        other captions may not."""
        return source_digest(training_pairs(self.run))

    def selection(self) -> str:
        """A digest of the captions that were chosen of the other folds; empty where none were, but all are taken."""
        return ""


def folds(samples: int, count: int, seed: int) -> list[tuple[int, ...]]:
    """The numbers of all samples in `count` parts, drawn at random."""
    if samples < 4:
        raise UserError(f"an audit compares pairs, and {samples} are too few; give at least 4")
    if not 2 <= count <= samples // 2:
        raise UserError(f"{samples} pairs cannot be judged in {count} folds; choose from 2 to {samples // 2}")
    order = torch.randperm(samples, generator=generator(seed, "folds"))
    return [tuple(part.sort().values.tolist()) for part in order.tensor_split(count)]


def folds_of(source: Source, count: int, seed: int, size: int) -> list[tuple[int, ...]]:
    """The records of a source in `count` folds, drawn at random, copies of a record in one fold.

    A source that is watched is shown its pictures first, of `size` pixels.
    """
    parts = folds(len(source), count, seed)
    if has_features(source) and not isinstance(source, WatchedSource):
        source = WatchedSource(source)
    if isinstance(source, WatchedSource) and has_pictures(source):
        read_pictures(source, size)
    return held_together(parts, source)


def judges(
    loaded: Loaded,
    parts: list[tuple[int, ...]],
    folder: Path,
    seed: int,
    held_out: Callable[[Run, tuple[int, ...], int], HeldOutData] = lambda run, part, _: HeldOutData(run, part),
    members: int = 1,
) -> Iterator[Iterator[Judge]]:
    """Train `members` models per fold without that fold; yield each at its best step. No finished one is trained again.

    They differ in the seed of their training, and in the data that `held_out` makes of run, fold and their number.
    Folds come in order, one being done before the next is asked for.
    """
    for number, part in enumerate(parts):
        place = folder / f"fold-{number + 1}-of-{len(parts)}-seed-{seed}"
        yield (
            _trained(loaded, held_out(loaded.run, part, member), part, _named(place, member), member)
            for member in range(members)
        )


def _named(place: Path, member: int) -> Path:
    return place.with_name(f"{place.name}-judge-{member + 1}") if member else place


def _trained(loaded: Loaded, data: HeldOutData, part: tuple[int, ...], place: Path, member: int) -> Judge:
    require_same_fold(place, part, data)
    seed = loaded.run.seed + 1000 * member
    every = _look_every(loaded.run.training)
    training = replace(loaded.run.training, evaluate_every=every)
    run = replace(loaded.run, data=data, shuffle=Shuffle(), keep=Keep(), training=training, seed=seed)  # type: ignore[arg-type]
    if not is_trained(place):
        print(f"Training a judge: {place.name.replace('-', ' ')}", flush=True)
        table = {**loaded.table, "training": {**loaded.table["training"], "evaluate_every": every}, "seed": seed}
        _, outcome = train_run(Loaded(run, table), place, measured=CHOOSING)
        if outcome.signal:
            raise KeyboardInterrupt
        _note_trained(place)
    _forget_states(place)
    best = place / CHECKPOINTS / BEST
    return Judge(load(best, run.training.torch_device()), best)


def _look_every(training: Training) -> int:
    """Steps between looks at the fold. A judge learns wrong pairs by heart soon after it is at its best, often in the
    first half of its steps, and only a step that was looked at can be called the best."""
    return min(training.evaluate_every or training.steps, max(1, training.steps // LOOKS))


def require_same_fold(folder: Path, part: tuple[int, ...], data: HeldOutData) -> None:
    """A judge of other folds, or of data that has changed, saw other pairs, so the numbers of the records it must not
    see and a digest of the data are kept beside it.

    Beside one that learns from captions that were chosen is their digest, too: where others are chosen by now, or
    nothing is noted, it is removed, for it would judge by what no longer holds.
    """
    selection = data.selection()
    now = {"records": len(part), "digest": hashlib.sha256(" ".join(map(str, part)).encode()).hexdigest()}
    now |= {"data": data.digest()} | ({"selection": selection} if selection else {})
    note = folder / FOLD
    if not note.is_file() and not step_folders(folder):
        write_text(note, json.dumps(now) + "\n")
    before = read_fold(folder) if note.is_file() else {}
    for name, other in OTHER.items():
        if before.get(name) != now[name]:
            raise UserError(f"the judge in {folder} was trained {other} noted; choose another --out")
    if before.get("selection") != now.get("selection"):
        print(f"Other captions are kept than the judge in {folder} learned from; it is trained anew", flush=True)
        remove_folder(folder)
        write_text(note, json.dumps(now) + "\n")


def _note_trained(folder: Path) -> None:
    write_text(folder / FOLD, json.dumps({**read_fold(folder), TRAINED: True}) + "\n")


def _forget_states(folder: Path) -> None:
    """A judge that is trained judges at its best step; the states to go on from are three times as large."""
    for outdated in step_folders(folder):
        remove_folder(outdated)
