"""Any source written as WebDataset shards: `00000.tar`, `00001.tar`, ... with `.jpg` (or `.png`), `.txt` and `.json`.

A shard appears under its name only when it is whole, so a run that was stopped goes on where it left off: shards that
exist are skipped. `shards.json` beside them says what they were made from; other data never lands among them.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from PIL import Image
from torch import Tensor

from equipoise.data.source import Pair, Source
from equipoise.io.atomic import replacing, write_text
from equipoise.types import UserError

NOTE = "shards.json"
CHUNK = 256  # images drawn at once, fewer where they are large
MOST_PIXELS = 2**26  # of such a chunk
LARGEST = 2**13  # pixels on a side
FORMATS: dict[str, dict[str, Any]] = {
    "jpg": {"format": "JPEG", "quality": 95, "subsampling": 0},
    "png": {"format": "PNG"},
}

Progress = Callable[[int, int], None]  # records done, records in all


def write_shards(
    source: Source,
    folder: Path | str,
    size: int,
    per_shard: int = 1000,
    progress: Progress | None = None,
    image_format: str = "jpg",
) -> list[Path]:
    """Writes the shards that are not there yet; returns the paths of all."""
    if per_shard < 1 or size < 1:
        raise UserError(f"shards need at least 1 record and 1 pixel, not per_shard {per_shard} and size {size}")
    if size > LARGEST:
        raise UserError(f"shards of {size} pixels on a side are too large; {LARGEST} is the most")
    if image_format not in FORMATS:
        raise UserError(f'images are written as {" or ".join(FORMATS)}, not "{image_format}"')
    folder = Path(folder)
    claim(folder, _note(source, size, per_shard, image_format))
    paths = []
    for number, start in enumerate(range(0, len(source), per_shard)):
        path = folder / f"{number:05d}.tar"
        indices = range(start, min(start + per_shard, len(source)))
        if not path.exists():
            write_shard(path, _samples(source, indices, size, image_format))
        paths.append(path)
        if progress:
            progress(indices.stop, len(source))
    return paths


def _note(source: Source, size: int, per_shard: int, image_format: str) -> str:
    """What the shards hold; the first captions stand for the data itself."""
    settings = {"records": len(source), "per_shard": per_shard, "size": size, "format": image_format}
    return json.dumps({**settings, "first": source.pair(0).captions}, indent=2, ensure_ascii=False) + "\n"


def claim(folder: Path, note: str) -> None:
    file = folder / NOTE
    if not file.exists():
        write_text(file, note)
    elif file.read_text(encoding="utf-8") != note:
        raise UserError(f"{folder} holds shards of other data or settings (see {file}); choose another folder")


def require_writer() -> Any:
    """webdataset's TarWriter; raises UserError where it is not installed."""
    try:
        from webdataset import TarWriter
    except ImportError as error:
        raise UserError("writing shards needs webdataset; install it with: pip install 'equipoise[shards]'") from error
    return TarWriter


def write_shard(path: Path, samples: Iterable[dict[str, Any]]) -> None:
    tar_writer = require_writer()
    with replacing(path) as temporary, temporary.open("wb") as stream, tar_writer(stream, mtime=0.0) as writer:
        for sample in samples:
            writer.write(sample)


def _samples(source: Source, indices: range, size: int, image_format: str) -> Iterator[dict[str, Any]]:
    count = max(1, min(CHUNK, MOST_PIXELS // size**2))
    for start in range(0, len(indices), count):
        chunk = indices[start : start + count]
        for index, image in zip(chunk, source.images(chunk, size), strict=True):
            pair = source.pair(index)
            yield {
                "__key__": pair.key.replace(".", "_"),  # a dot would end the key
                image_format: _encoded(image, image_format),
                "txt": "\n".join(" ".join(caption.split()) for caption in pair.captions).encode(),
                "json": json.dumps(_side_data(pair), ensure_ascii=False).encode(),
            }


def _encoded(image: Tensor, image_format: str) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(image.permute(1, 2, 0).cpu().numpy()).save(buffer, **FORMATS[image_format])
    return buffer.getvalue()


def _side_data(pair: Pair) -> dict[str, Any]:
    return {name: value for name, value in vars(pair).items() if name != "captions"}
