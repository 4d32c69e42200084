"""Summary of detected regions: numbers, and a contact sheet of pictures with their boxes; made of the files
alone, so that a resumed run leaves the same."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image, ImageDraw
from torch import Tensor

from equipoise.data.bad_records import BadRecord
from equipoise.data.contact_sheet import contact_sheet
from equipoise.data.encoded_image import encoded
from equipoise.data.files.records import Records
from equipoise.data.files.regions import BOX, RegionFiles
from equipoise.io.atomic import write_text
from equipoise.io.numbers import hand_over
from equipoise.io.resumable import NumberedFiles

REPORT, SHEET = "report.json", "sheet.png"
PICTURES, SIDE, DRAWN = 12, 280, 5  # on the sheet, pixels of each, boxes on each
OFTEN = 20
COLOURS = ("#e6194b", "#3cb44b", "#4363d8", "#f58231", "#911eb4")


def summarise(records: Records, files: NumberedFiles) -> dict[str, Any]:
    """Write report.json and sheet.png beside the regions, print the main numbers and return the report."""
    names = files.names()
    with files.folder.on_disk([*names, *(f"{Path(name).stem}.json" for name in names)]) as folder:
        report = _written(records, folder)
    hand_over({**report, "folder": str(files.place)})
    print(f"{report['regions']:,} regions of {report['records']:,} records are in {len(files)} files in {files.place}")
    for what in ("regions", "tags"):
        if missing := report[f"records without {what}"]:
            print(f"{missing:,} records have no {what}: their rows of a target stay one-hot")
    width = report["numbers a region"]
    print(f"Look at {files.place / SHEET}; train with --set data.regions={files.place} --set regions.width={width}")
    return report


def _written(records: Records, folder: Path) -> dict[str, Any]:
    regions = RegionFiles(folder)
    keys = [records.key(index) for index in range(len(records))]
    counts = [regions.count(key) for key in keys]
    tags = Counter(tag for key in keys for tag in regions.tags(key))
    report = {
        "records": len(keys),
        "regions": sum(counts),
        "numbers a region": regions.width,
        "most regions of a picture": max(counts),
        "records without regions": counts.count(0),
        "records without tags": sum(not regions.tags(key) for key in keys),
        "different tags": len(tags),
        "frequent tags": dict(sorted(tags.items(), key=lambda item: (-item[1], item[0]))[:OFTEN]),
    }
    write_text(folder / REPORT, json.dumps(report, indent=2, ensure_ascii=False) + "\n")
    _draw(records, regions, folder / SHEET)
    return report


def _draw(records: Records, regions: RegionFiles, path: Path) -> None:
    pictures, words = [], []
    for index in np.unique(np.linspace(0, len(records) - 1, PICTURES).astype(int)).tolist():
        key = records.key(index)
        try:
            pixels = encoded(records.image(index), records.place(index)).pixels()
        except BadRecord:
            continue
        features, _ = regions.of(key)
        pictures.append(_with_boxes(pixels, features[:DRAWN, -BOX:]))
        words.append([", ".join(regions.tags(key)) or "(no tags)", *records.pair(index).captions[:1]])
    if pictures:
        contact_sheet(torch.stack(pictures), words, path)


def _with_boxes(pixels: np.ndarray, boxes: Tensor) -> Tensor:
    """The picture squeezed into a square with its boxes of highest score, the highest on top."""
    image = Image.fromarray(pixels).resize((SIDE, SIDE), Image.Resampling.BICUBIC)
    pen = ImageDraw.Draw(image)
    for colour, box in reversed([*zip(COLOURS, (boxes * (SIDE - 1)).tolist(), strict=False)]):
        pen.rectangle(box, outline=colour, width=3)
    return torch.from_numpy(np.array(image)).permute(2, 0, 1)
