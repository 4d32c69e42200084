"""Transformations and their database in the files of SIMAT, so that other programs can score the same."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from equipoise.data.files.simat.images import REGIONS
from equipoise.data.files.simat.oracle import NAMES
from equipoise.data.files.simat.tables import CAPTIONS, TRANSFOS, TRIPLETS
from equipoise.data.simat_questions import Transformations
from equipoise.data.source import Source
from equipoise.io.atomic import replacing
from equipoise.types import UserError

PICTURES = "images"
AT_ONCE = 64


def write_simat(
    asked: Transformations, source: Source, folder: Path, size: int, progress: Callable[[int], None] = lambda _: None
) -> None:
    """Writes the tables, the oracle, and every picture as a PNG of `size` pixels: region i is all of picture i."""
    if folder.exists():
        raise UserError(f"{folder} is there already; choose a new folder")
    with replacing(folder) as temporary:
        (temporary / PICTURES).mkdir(parents=True)
        for start in range(0, len(source), AT_ONCE):
            numbers = range(start, min(start + AT_ONCE, len(source)))
            for number, pixels in zip(numbers, source.images(numbers, size), strict=True):
                Image.fromarray(pixels.permute(1, 2, 0).numpy()).save(temporary / PICTURES / f"{number}.png")
            progress(numbers.stop)
        _tables(asked, temporary, size)
        np.save(temporary / f"{NAMES[1]}.npy", asked.oracle.scores.cpu().numpy())


def _tables(asked: Transformations, folder: Path, size: int) -> None:
    box = f"0,0,{size},{size}"
    triplets = list(enumerate(asked.triplets))
    _write(folder / TRIPLETS, ("region_id", "subj", "rel", "obj", "dataset_id"), [(n, *t, n) for n, t in triplets])
    cut = [(n, n, *t, box) for n, t in triplets]
    _write(folder / REGIONS, ("region_id", "image_id", "subj", "rel", "obj", "bbox"), cut, "\t")
    columns = ("transfo_id", "region_id", "field", "value", "target", "target_ids", "dataset_id", "norm2", "is_test")
    lines = [
        (one.number, one.source, one.field, one.value, one.target, one.caption, one.source, one.alike, one.is_test)
        for one in asked.asked
    ]
    _write(folder / TRANSFOS, ("", *columns), [(one[0], *one) for one in lines])  # the first column is an index
    (folder / CAPTIONS).write_text("".join(f"{caption}\n" for caption in asked.captions), encoding="utf-8")


def _write(path: Path, columns: Sequence[str], lines: Iterable[Sequence[object]], separator: str = ",") -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter=separator, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(lines)
