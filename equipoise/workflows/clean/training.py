"""Cleaning as the first part of a run: `equipoise train RECIPE --clean`. The keep file lies in the run's folder."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from equipoise.config import Loaded, dump
from equipoise.data.keep.file import NOTE
from equipoise.data.keep.settings import Clean, Keep
from equipoise.io.atomic import write_text
from equipoise.models.folder import CONFIG
from equipoise.training.distributed.heartbeat import on_main_with_heartbeat
from equipoise.training.distributed.ranks import Ranks
from equipoise.workflows.clean.run import clean_data

FOLDER = "clean"


def with_clean_pairs(loaded: Loaded, folder: Path, ranks: Ranks) -> Loaded:
    """The run on what cleaning keeps of its pairs, which is done where it has not been; the run itself without [clean]
    and where pairs are judged while it trains (`online.py`).

    Its settings stay as they were asked for, and are stored first, so that the run can be resumed while it judges. Of
    several processes the first judges, and all train on what it keeps.
    """
    if not loaded.run.clean.enabled:
        return loaded
    if loaded.run.clean.online:
        ranks.on_main(lambda: write_text(folder / CONFIG, dump(loaded.table)))
        return loaded
    place = folder / FOLDER

    def clean() -> None:
        if not (place / NOTE).is_file():
            write_text(folder / CONFIG, dump(loaded.table))
            print(clean_data(loaded, place).sentence, flush=True)

    on_main_with_heartbeat(ranks, clean, loaded.run.training.rank_timeout)
    return Loaded(replace(loaded.run, clean=Clean(), keep=Keep(str(place))), loaded.table)


@contextmanager
def naming_what_was_judged(folder: Path, ranks: Ranks) -> Iterator[None]:
    """Tell where the keep file of the run in `folder` is, if training on it fails: judging need not be done again."""
    try:
        yield
    except Exception:
        if (folder / FOLDER / NOTE).is_file():
            ranks.print(
                f"What was judged stays in {folder / FOLDER}: the run goes on by --resume {folder}, "
                f"and one with other settings trains on it by --set keep.folder={folder / FOLDER}"
            )
        raise
