"""Pictures with captions, small enough for every test, in every form that files may have."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from class_pictures import COLOURS
from PIL import Image


def write_captioned(folder: Path, count: int = 48) -> Path:
    """Pictures of two colours, each with two captions, as a table per caption, lines of JSON, MSCOCO's JSON, texts."""
    (folder / "images").mkdir(parents=True)
    names, rows = list(COLOURS), list[tuple[str, str]]()
    for number in range(count):
        left, right = names[number % 3], names[number // 3 % 3]
        pixels = np.zeros((32, 32, 3), dtype=np.uint8)
        pixels[:, :16], pixels[:, 16:] = COLOURS[left], COLOURS[right]
        pixels[number % 32, :, :] = number
        Image.fromarray(pixels).save(folder / "images" / f"{number:02d}.png")
        rows += [(f"{number:02d}.png", f"{number}: {left} and {right}"), (f"{number:02d}.png", f"{right}, {number}")]
    (folder / "pairs.csv").write_text("\n".join(["image,caption", *(f'images/{a},"{b}"' for a, b in rows)]))
    (folder / "pairs.jsonl").write_text("\n".join(json.dumps({"img": f"images/{a}", "text": b}) for a, b in rows))
    images = [{"id": number, "file_name": f"{number:02d}.png"} for number in range(count)]
    captions = [{"image_id": number // 2, "caption": text} for number, (_, text) in enumerate(rows)]
    (folder / "coco.json").write_text(json.dumps({"images": images, "annotations": captions}))
    return folder
