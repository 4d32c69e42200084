"""Pairs judged on frozen features of their records, once for all rows of the noise bench that ask the same judges."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

from cells import Row

from equipoise.config import Loaded, load_run
from equipoise.data.keep.file import NOTE
from equipoise.data.keep.settings import Clean, Keep
from equipoise.io.atomic import write_text
from equipoise.workflows.clean.run import clean_data

SECONDS = "seconds.json"
SHARED = ("shuffle.", "clean.", "seed=")  # what the judges take of a row: its noise, its `[clean]`, its seed


def with_seed(row: Row, extra: Sequence[str], seed: int) -> list[str]:
    """The settings of a cell; where captions are shuffled, by its seed too."""
    shuffled = any(text.startswith("shuffle.") for text in row.settings)
    return [*row.settings, *extra, f"seed={seed}", *([f"shuffle.seed={seed}"] if shuffled else [])]


def judged(features: Sequence[str], place: Path, settings: Sequence[str]) -> Path:
    """The folder below `place` with what heads on the features keep of the pairs, made where it is missing."""
    shared = [text for text in settings if text.startswith(SHARED)]
    folder = place / sha256(json.dumps([sorted(features), sorted(shared)]).encode()).hexdigest()[:12]
    if not (folder / NOTE).is_file():
        place.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=place, ignore_cleanup_errors=True) as made:
            start = time.perf_counter()
            clean_data(load_run("features", [*features, *shared]), Path(made, "clean"), show=0)
            write_text(Path(made, "clean", SECONDS), json.dumps(time.perf_counter() - start))
            with suppress(OSError):  # another process was first: the judges are the same
                Path(made, "clean").rename(folder)
    return folder


def judge_alone(features: Sequence[str], place: Path, row: Row, seed: int, extra: Sequence[str], file: Path) -> str:
    """The work of a cell that is only judged, for later runs of the same rows."""
    folder = judged(features, place, with_seed(row, extra, seed))
    write_text(file, json.dumps({"found": {}, "judged": json.loads((folder / NOTE).read_text())}))
    return f"{row.name}, seed {seed}, judged in {seconds_of(folder):.0f} s"


def seconds_of(folder: Path) -> float:
    return float(json.loads((folder / SECONDS).read_text()))


def on_kept(loaded: Loaded, folder: Path) -> Loaded:
    """The run on what was kept."""
    return Loaded(replace(loaded.run, clean=Clean(), keep=Keep(str(folder))), loaded.table)
