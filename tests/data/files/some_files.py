"""Small files to read: pictures and tars made on the spot."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
from PIL import Image


def picture(height: int = 40, width: int = 60, seed: int = 0) -> Image.Image:
    """A smooth picture, as photographs are."""
    small = np.random.default_rng(seed).integers(0, 256, (6, 6, 3), dtype=np.uint8)
    return Image.fromarray(small).resize((width, height), Image.Resampling.BICUBIC)


def encode(image: Image.Image, kind: str = "JPEG", **options: object) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **({"quality": 95} if kind == "JPEG" else {}) | options)
    return buffer.getvalue()


def jpeg(height: int = 40, width: int = 60, seed: int = 0) -> bytes:
    return encode(picture(height, width, seed))


def write_tar(path: Path, files: Mapping[str, bytes] | Iterable[tuple[str, bytes]], **options: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w", **options) as tar:
        for name, data in files.items() if isinstance(files, Mapping) else files:
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
    return path


def records(count: int, start: int = 0) -> dict[str, bytes]:
    """The files of `count` sound records, sizes all different, with one to three captions."""
    files = {}
    for number in range(start, start + count):
        files[f"{number:05d}.jpg"] = jpeg(30 + number % 13, 40 + number % 7, number)
        captions = [f"picture {number} told in way {way}" for way in range(1 + number % 3)]
        files[f"{number:05d}.txt"] = "\n".join(captions).encode()
    return files
