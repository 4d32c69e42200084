"""The page of a code book: every used code with its words and pictures, and a box to search them by a word.

    index.html       the codes, those first whose images and texts agree the most
    pictures/        one file a code: its pictures above, heat maps below
    codes.json       all numbers

The one script of the page is the box; the page's content policy names it by its hash and allows no other.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from equipoise.io.atomic import replacing, write_text
from equipoise.reports.page import page, part

GAP = 4  # pixels between pictures
QUALITY = 88


def strip(pictures: np.ndarray, heat: np.ndarray) -> np.ndarray:
    """Pictures and heat maps uint8 [K, H, W, 3], one row each."""
    height, width = pictures.shape[1:3]
    columns = len(pictures)
    sheet = np.full((2 * height + GAP, columns * (width + GAP) - GAP, 3), 255, dtype=np.uint8)
    for column in range(columns):
        left = column * (width + GAP)
        sheet[:height, left : left + width] = pictures[column]
        sheet[height + GAP :, left : left + width] = heat[column]
    return sheet


def write_codes(
    folder: Path,
    title: str,
    verdict: str,
    facts: Mapping[str, Any],
    codes: Sequence[Mapping[str, Any]],
    strips: Iterable[tuple[int, np.ndarray]],
) -> Path:
    """The page's path. `codes` are JSON-able; `strips` come one by one, by the code's number."""
    sizes: dict[int, tuple[int, int]] = {}
    with replacing(folder / "pictures") as pictures:
        pictures.mkdir()
        for code, sheet in strips:
            sizes[code] = sheet.shape[1], sheet.shape[0]
            Image.fromarray(sheet).save(pictures / _name(code), format="JPEG", quality=QUALITY)
    record = {"finding": verdict, **facts, "codes": list(codes)}
    write_text(folder / "codes.json", json.dumps(record, indent=1, ensure_ascii=False, allow_nan=False) + "\n")
    write_text(folder / "index.html", _page(title, verdict, codes, sizes))
    return folder / "index.html"


def _page(title: str, verdict: str, codes: Sequence[Mapping[str, Any]], sizes: Mapping[int, tuple[int, int]]) -> str:
    from markupsafe import Markup

    script = part("codes.js")
    shown = [
        {"purity": {}, **code, "picture": f"pictures/{_name(number)}", "width": width, "height": height}
        for code in codes
        for number in [code["code"]]
        for width, height in [sizes[number]]
    ]
    return page(
        "codes.html", title=title, verdict=verdict, codes=shown, script=Markup(script),
        script_hash=base64.b64encode(sha256(script.encode()).digest()).decode("ascii"),
    )  # fmt: skip


def _name(code: int) -> str:
    return f"{code:05d}.jpg"
