"""`equipoise scenes`: a recipe's data as a contact sheet, or as shards for other tools."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from equipoise.config import load_run
from equipoise.io.folder_lock import only_writer
from equipoise.io.numbers import hand_over
from equipoise.io.progress import Progress
from equipoise.types import UserError

MOST_PIXELS = 2**28  # of a contact sheet, whose pictures are drawn at once and shown small


def preview(recipe: str, overrides: Sequence[str], split: str, count: int, size: int, out: Path) -> None:
    """Write a contact sheet of a recipe's data."""
    from equipoise.data.contact_sheet import contact_sheet

    if count < 1 or size < 1:
        raise UserError(f"a contact sheet needs at least 1 scene and 1 pixel, not --count {count} and --size {size}")
    if count * size * size > MOST_PIXELS:
        raise UserError(f"--count {count} pictures of --size {size} are over {MOST_PIXELS:,} pixels; choose fewer")
    source = load_run(recipe, overrides).run.data.build(split)
    chosen = range(min(count, len(source)))
    contact_sheet(source.images(chosen, size), [list(source.pair(index).captions) for index in chosen], out)
    print(f"{len(chosen)} pictures with their captions are in {out}")


def write_data(recipe: str, overrides: Sequence[str], split: str, size: int, per_shard: int, folder: Path) -> None:
    """Write a recipe's data as WebDataset shards."""
    from equipoise.data.shard_writer import write_shards

    source = load_run(recipe, overrides).run.data.build(split)
    with only_writer(folder), Progress(len(source), "writing") as progress:
        shards = write_shards(source, folder, size, per_shard, lambda done, _: progress.update(done))
    print(f"{len(source):,} pairs are in {len(shards)} shards in {folder}")
    hand_over({"records": len(source), "shards": len(shards), "folder": str(folder)})
