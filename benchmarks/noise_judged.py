"""Pairs judged once for all rows of the noise bench that ask the same judges.

Rows that are judged on frozen features always share them, others where the bench is asked to (`--share-judges`). Who
judges and how often is then settled without the row: by the recipe's own objective and rate, by the default rule. What
a row does with P(right), its threshold or its weights, is left to `[keep]` of its own training. So rows that differ in
that alone have the same P(right) to the last bit, and a second round learns from the captions with P(right) of at least
one half whatever the row keeps.

Three kinds of rows go by the decisions of a folder of their own: the rule `share`, for `[keep]` knows no share but the
one that was read, and a second round of it learns from what it keeps; captions that are matched anew; and evidence that
is no probability, which has weights alone.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from cells import Row, cell_name, run
from noise_rows import CLEANED, ON_FEATURES, ONLINE, TOLD

from equipoise.config import Loaded, load_run
from equipoise.data.keep.file import NOTE, TABLE, read_keep, read_note
from equipoise.data.keep.match import matched
from equipoise.data.keep.rules import kept_captions
from equipoise.data.keep.settings import WEIGHTS_ONLY, Clean, Keep
from equipoise.io.atomic import write_text
from equipoise.ops.tf32 import tf32_products
from equipoise.training.device import torch_device
from equipoise.workflows.audit.folds import training_pairs
from equipoise.workflows.claims.run import known_commit
from equipoise.workflows.clean.run import clean_data
from equipoise.workflows.clean.truth import measured
from equipoise.workflows.embed.write import NOTE as EMBEDDED

SECONDS = "seconds.json"
TAKEN = ("shuffle.", "clean.", "seed=")  # what judges on features take of a row: its noise, its `[clean]`, its seed
OF_THE_ROW = ("objective.", "training.learning_rate=")  # how a row trains, which its judges do not
OF_THE_RULE = ("clean.rule=", "clean.threshold=", "clean.share=")  # what is done with P(right)
FEATURES = "features"  # of a cell: what made those that its judges read
JUDGED_WITH = "judged_with"  # of a cell: the settings of the recipe `features` that its judges were trained with
DATA = "data."  # files, which FEATURES tells
MADE_BY = ("weights", "text_weights", "features", "pictures", "half")  # of the note of `equipoise embed`


def with_seed(row: Row, extra: Sequence[str], seed: int) -> list[str]:
    """The settings of a cell; where captions are shuffled, by its seed too."""
    shuffled = any(text.startswith("shuffle.") for text in row.settings)
    return [*row.settings, *extra, f"seed={seed}", *([f"shuffle.seed={seed}"] if shuffled else [])]


def made(row: Row, seed: int, extra: Sequence[str], device: torch.device) -> dict[str, Any]:
    """What a cell is, where it was made and by which commit."""
    settings = with_seed(row, extra, seed)
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.processor() or device.type
    about = {"name": row.name, "seed": seed, "recipe": row.recipe, "settings": settings}
    return {**about, "commit": known_commit(), "device": name}


@dataclass(frozen=True)
class SharedJudges:
    """The judges of an experiment, one folder a pass of judging."""

    place: Path
    features: tuple[str, ...] = ()  # settings of the recipe `features`, of the same records
    of_all: bool = False  # whether rows that are not judged on features share theirs too
    tf32: bool = False

    def judge(self, row: Row) -> bool:
        """Whether a row goes by these judges."""
        if ON_FEATURES in row.name:
            return bool(self.features)
        by_itself = ONLINE in row.settings or row.name.endswith(TOLD)
        return self.of_all and CLEANED in row.settings and not by_itself

    def read(self, row: Row) -> dict[str, Any]:
        """What made the features that a row's judges read, as `equipoise embed` noted it beside them, and the settings
        they were trained with: other weights, other sizes of the pictures or other steps make other judges."""
        if ON_FEATURES not in row.name:
            return {}
        given = load_run("features", self.features).run.data.train
        places = [Path(path) for path in ([given] if isinstance(given, str) else given)]
        files = dict.fromkeys((place if place.is_dir() else place.parent) / EMBEDDED for place in places)
        notes = [json.loads(file.read_text()) for file in files if file.is_file()]
        made = [{key: note[key] for key in MADE_BY if key in note} for note in notes]
        read = {FEATURES: [note for place, note in enumerate(made) if note not in made[:place]]} if made else {}
        return {**read, JUDGED_WITH: [text for text in self.features if not text.startswith(DATA)]}

    def asked(self, row: Row, seed: int, extra: Sequence[str]) -> tuple[str, list[str]]:
        """The recipe of a row's judges, and their settings, each once."""
        own = replace(row, settings=tuple(text for text in row.settings if not text.startswith(OF_THE_ROW)))
        recipe, settings = row.recipe, with_seed(own, extra, seed)
        if ON_FEATURES in row.name:
            recipe, settings = "features", [*self.features, *(text for text in settings if text.startswith(TAKEN))]
        by_key = {text.partition("=")[0]: text for text in settings}  # the last one counts
        later = OF_THE_RULE if _cut_later(load_run(row.recipe, with_seed(row, extra, seed)).run.clean) else ()
        return recipe, sorted(text for text in by_key.values() if not text.startswith(later))

    def folder(self, row: Row, seed: int, extra: Sequence[str]) -> Path:
        return self.place / sha256(json.dumps(self.asked(row, seed, extra)).encode()).hexdigest()[:12]

    def judged(self, row: Row, seed: int, extra: Sequence[str]) -> Path:
        """The folder with what the judges of a row say of all pairs, made where it is missing."""
        folder = self.folder(row, seed, extra)
        if not (folder / NOTE).is_file():
            self.place.mkdir(parents=True, exist_ok=True)
            with TemporaryDirectory(dir=self.place, ignore_cleanup_errors=True) as made, tf32_products(self.tf32):
                start = time.perf_counter()
                clean_data(load_run(*self.asked(row, seed, extra)), Path(made, "clean"), show=0)
                write_text(Path(made, "clean", SECONDS), json.dumps(time.perf_counter() - start))
                with suppress(OSError):  # another process was first: the judges are the same
                    Path(made, "clean").rename(folder)
        return folder

    def said(self, row: Row, seed: int, extra: Sequence[str]) -> dict[str, Any]:
        """The note of a row's judges, with the truth about what the row keeps by them."""
        folder = self.judged(row, seed, extra)
        clean = load_run(row.recipe, with_seed(row, extra, seed)).run.clean
        keep = keep_of(clean, folder)
        source = training_pairs(load_run(*self.asked(row, seed, extra)).run)
        table, note = read_keep(folder)
        counts, here = matched(table, source, folder / TABLE)
        right, kept = table.right[here], table.keep[here]
        if keep.rule != "decision":
            kept = kept_captions(right, keep.rule, keep.threshold, note["noise"])
        owners = np.repeat(np.arange(len(source)), counts)
        by = {**note["rule"], **{name: getattr(clean, name) for name in ("rule", "threshold", "share")}}
        return {**note, "rule": by, "truth": note["truth"] | measured(source, owners, right, kept)}


def _cut_later(clean: Clean) -> bool:
    """Whether `[keep]` can do with P(right) what a row does."""
    return clean.rule != "share" and not clean.rematch and clean.evidence not in WEIGHTS_ONLY


def keep_of(clean: Clean, folder: Path) -> Keep:
    """What a row trains on, by its rule: the decisions in the folder where they were made by it."""
    by = read_note(folder)["rule"]
    if (by["rule"], by["threshold"]) == (clean.rule, clean.threshold):
        return Keep(str(folder))
    return Keep(str(folder), clean.rule, clean.threshold)


def on_kept(loaded: Loaded, folder: Path) -> Loaded:
    """The run on what its rule keeps."""
    return Loaded(replace(loaded.run, clean=Clean(), keep=keep_of(loaded.run.clean, folder)), loaded.table)


def judge_beforehand(judges: SharedJudges, rows: Sequence[Row], options: argparse.Namespace, anew: bool) -> None:
    """Judge for all rows that lack a cell (`anew`: for all), each pass once, so that no two cells do the same."""
    rows = [row for row in rows if judges.judge(row) and (anew or _lacks_cells(row, options))]
    firsts = {judges.folder(row, 0, options.set): row for row in reversed(rows)}
    place = argparse.Namespace(**{**vars(options), "out": judges.place, "rows": None})
    work = partial(judge_alone, judges)
    run(list(firsts.values())[::-1], place, work=work)
    run([row for row in rows if (judges.folder(row, 0, options.set) / NOTE).is_file()], place, work=work)


def _lacks_cells(row: Row, options: argparse.Namespace) -> bool:
    return not all((options.out / cell_name(row.name, seed)).exists() for seed in range(options.seeds))


def judge_alone(judges: SharedJudges, row: Row, seed: int, extra: Sequence[str], file: Path) -> str:
    """The work of a cell that is only judged, for later runs of the same rows."""
    torch.set_num_threads(1)
    folder = judges.judged(row, seed, extra)
    judged = {"seconds": {"judging": seconds_of(folder)}, "judged": judges.said(row, seed, extra)}
    device = torch_device(load_run(*judges.asked(row, seed, extra)).run.training.device)  # the row's may not be here
    about = {**made(row, seed, extra, device), **judges.read(row), **judged}
    write_text(file, json.dumps({**about, "found": {}}, indent=1) + "\n")
    return f"{row.name}, seed {seed}, judged in {seconds_of(folder):.0f} s"


def seconds_of(folder: Path) -> float:
    return float(json.loads((folder / SECONDS).read_text()))
