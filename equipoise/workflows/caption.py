"""`equipoise caption`: captions that a model writes of pictures, as a table and as JSON lines.

    {"picture": "photos/1.jpg", "caption": "a red fish beside a star"}

Lines are in the order of the pictures, those of data with captions of their own have these as `references`. Work that
was stopped goes on where it was left (`io/json_lines.py`). A sheet shows some of the pictures with what was written.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any

import torch

from equipoise.data.contact_sheet import contact_sheet
from equipoise.data.source import Pair, Source, has_features
from equipoise.data.unreadable_pictures import readable_pictures
from equipoise.evaluation.captions.written import source_captions
from equipoise.io.atomic import CannotWrite
from equipoise.io.json_lines import JsonLines
from equipoise.io.numbers import hand_over
from equipoise.io.progress import Progress
from equipoise.io.tables import make_table, print_tables
from equipoise.models.captioning import Decoding
from equipoise.models.captioning.writer import caption_head
from equipoise.models.compatibility import require_compatible
from equipoise.models.model import Model, evaluating
from equipoise.reports.captions import judged_caption
from equipoise.reports.held_out import evenly
from equipoise.types import UserError
from equipoise.workflows.load import load
from equipoise.workflows.pictures import find_pictures

ROWS = 40  # captions in the printed table
SHOWN, SIDE = 8, 192  # pictures on the sheet, and their pixels


def caption_pictures(
    path: str | Path,
    pictures: Sequence[str],
    settings: Decoding,
    out: Path | None,
    *,
    sheet: Path | None = None,
    batch_size: int = 64,
    overrides: Sequence[str] = (),
) -> list[dict[str, Any]]:
    """Write captions, to `out` if there is one; print the first, hand over all, and return them. `sheet` is a PNG of
    some of them."""
    if batch_size < 1:
        raise UserError(f"--batch-size must be at least 1, not {batch_size}")
    if sheet is not None:
        _check_sheet(sheet)
    model = load(path, "auto")
    caption_head(model)
    sources = [readable_pictures(source) for source in find_pictures(pictures, overrides)]
    for source in sources:
        require_compatible(model, source)
        if sheet is not None and has_features(source):
            raise UserError("there are no pictures to draw in data of features; leave out --sheet")
    total = sum(map(len, sources))
    file = None if out is None else JsonLines(out, {"model": str(path), "pictures": total, **_noted(settings)})
    records = [] if file is None else _checked(file, sources)
    if records:
        print(f"{len(records):,} of {total:,} captions are there already; the others follow")
    with Progress(total, "captions", len(records)) as progress, evaluating(model):
        for made in _batches(model, sources, settings, batch_size, len(records)):
            if file is not None:
                file.append(made)
            records += made
            progress.update(len(records))
    _print(records)
    hand_over({"model": str(path), "captions": records})
    if out is not None:
        print(f"\nAll {total:,} captions are in {out}")
    if sheet is not None:
        _draw(sources, records, path, sheet)
    return records


def _check_sheet(sheet: Path) -> None:
    """Raise UserError where no sheet could be written, before any caption is."""
    if sheet.is_dir():
        raise UserError(f"{sheet} is a folder; name a file for --sheet")
    try:
        sheet.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CannotWrite(sheet, error.strerror or str(error)) from error


def _draw(sources: Sequence[Source], records: Sequence[dict[str, Any]], model: str | Path, sheet: Path) -> None:
    """Write a PNG of some pictures, evenly spaced, with what was written and what they came with."""
    chosen = evenly(len(records), SHOWN)
    images, texts = [], []
    for number in chosen:
        source, index = _place(sources, number)
        pair, caption = source.pair(index), records[number]["caption"]
        verdict, _ = judged_caption(caption, pair)
        known = [f"{verdict}."] if verdict else []
        known += [f"It came with: {pair.captions[0]}"] if pair.captions else []
        images.append(source.images([index], SIDE).cpu())
        texts.append([caption or "(no words)", " ".join(known)])
    legend = f"By {model}. Dark: what it wrote. Pale: what is known of the picture."
    contact_sheet(torch.cat(images), texts, sheet, title="Captions", legend=legend)
    print(f"{len(chosen)} pictures with their captions are in {sheet}")


def _place(sources: Sequence[Source], number: int) -> tuple[Source, int]:
    """The source of a picture and its number there, by its number among all."""
    for source in sources:
        if number < len(source):
            return source, number
        number -= len(source)
    raise IndexError(number)


def _noted(settings: Decoding) -> dict[str, Any]:
    """The settings that a caption depends on."""
    return {name: value for name, value in asdict(settings).items() if name != "cache"}


def _checked(file: JsonLines, sources: Sequence[Source]) -> list[dict[str, Any]]:
    """The captions that are there, of these pictures in this order; raises UserError where they are of others."""
    for number, (line, pair) in enumerate(zip(file.lines, _pairs(sources), strict=False), 1):
        if line.get("picture") != pair.key:
            raise UserError(
                f"{file.path}, line {number}: the picture is {line.get('picture')!r}, but {pair.key!r} is asked for; "
                "name another file for --out"
            )
    return file.lines


def _pairs(sources: Sequence[Source]) -> Iterator[Pair]:
    return (source.pair(index) for source in sources for index in range(len(source)))


def _batches(
    model: Model, sources: Sequence[Source], settings: Decoding, size: int, done: int
) -> Iterator[list[dict[str, Any]]]:
    """Records of the pictures behind the first `done`, a batch at a time."""
    before = 0
    for source in sources:
        for start in range(max(0, done - before), len(source), size):
            indices = range(start, min(start + size, len(source)))
            texts = source_captions(model, source, indices, settings, before + start)
            yield [_record(source.pair(index), text) for index, text in zip(indices, texts, strict=True)]
        before += len(source)


def _record(pair: Pair, caption: str) -> dict[str, Any]:
    references = {"references": list(pair.captions)} if pair.captions else {}
    return {"picture": pair.key, "caption": caption, **references}


def _print(records: Sequence[dict[str, Any]]) -> None:
    rows = [(one["picture"], one["caption"]) for one in islice(records, ROWS)]
    print_tables(make_table(("picture", "caption"), rows, text_columns=2))
    if len(records) > ROWS:
        print(f"... and {len(records) - ROWS:,} more; --json prints all, --out FILE writes them")
