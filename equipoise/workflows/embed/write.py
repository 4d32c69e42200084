"""`equipoise embed`: features of a whole data set, written once and trained on often.

    00000.safetensors    image [n, w], text [m, w], image_of_text [m]: the row of each text's image in this file
    00000.json           keys [n], captions [m], label [n] where there are labels
    00000.parquet        or all of that in a table of n rows (`data/features/parquet_file.py`)
    embedding.json       what made them

The source `features` reads such a folder back. A run that was stopped goes on where it left off (`io/resumable.py`).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from equipoise.data.bad_records import BadRecord, BadRecordCount
from equipoise.data.features.parquet_file import require_pyarrow, write_columns
from equipoise.data.part_writer import PartWriter
from equipoise.data.preprocess import Preprocess
from equipoise.data.source import Pair, Source, can_crop, has_features
from equipoise.data.tokenizer import CaptionTokenizer
from equipoise.encoders.encoder import ImageEncoder, TextEncoder
from equipoise.io.results_folder import Place
from equipoise.io.resumable import NumberedFiles, claim, write_arrays
from equipoise.readouts.readout import class_features
from equipoise.types import Features, UserError

NOTE = "embedding.json"
SAFETENSORS, PARQUET = FORMATS = ("safetensors", "parquet")
Finish = Callable[[Features], Tensor]  # what an encoder read to what is written


@dataclass(frozen=True)
class Embedding:
    per_shard: int = 10_000  # images in a file
    batch_size: int = 256
    half: bool = False  # float16 instead of float32
    format: str = SAFETENSORS

    def __post_init__(self) -> None:
        if self.format not in FORMATS:
            raise UserError(f"--format is {self.format}; choose one of {', '.join(FORMATS)}")
        if self.format == PARQUET:
            require_pyarrow("--format parquet")
        for name in ("per_shard", "batch_size"):
            if getattr(self, name) < 1:
                raise UserError(f"{name} must be at least 1, not {getattr(self, name)}")


@dataclass(frozen=True)
class ImageSide:
    encoder: ImageEncoder
    preprocess: Preprocess
    finish: Finish = class_features
    resized: int = 0  # the shorter side before the centre is cut out; 0 takes all of it

    @property
    def seen(self) -> dict[str, Any]:
        """What the encoder sees of a picture, for the note: other sizes make other features of the same weights."""
        size, resize = self.preprocess.size, self.preprocess.resize
        colours = {"mean": list(self.preprocess.mean), "std": list(self.preprocess.std)}
        return {"size": size, "resized": max(size, self.resized), "resize": resize, **colours}

    @torch.no_grad()
    def __call__(self, source: Source, indices: Sequence[int]) -> Tensor:
        given, mask = self._inputs(source, indices)
        device = _device(self.encoder)
        masks = () if mask is None else (mask.to(device),)
        return self.finish(self.encoder(self.encoder.prepare(given, self.preprocess).to(device), *masks))

    def _inputs(self, source: Source, indices: Sequence[int]) -> tuple[Tensor, Tensor | None]:
        if has_features(source):
            return source.image_features(indices)
        size = self.preprocess.side
        larger = max(size, self.resized)  # the first of equals, which may be squashed
        edge = round((larger - size) / 2)
        return source.images(indices, larger, _device(self.encoder))[..., edge : edge + size, edge : edge + size], None


@dataclass(frozen=True)
class TextSide:
    encoder: TextEncoder
    tokens: CaptionTokenizer
    finish: Finish = class_features

    @torch.no_grad()
    def __call__(self, source: Source, indices: Sequence[int]) -> Tensor:
        """All texts of the pairs, pair by pair."""
        if has_features(source) and source.text_width is not None:
            values, mask, _ = source.text_features(indices)
            return self._encode(values, mask)
        return self._encode([text for index in indices for text in source.pair(index).captions], None)

    def _encode(self, texts: list[str] | Tensor, given: Tensor | None) -> Tensor:
        inputs, mask = self.encoder.prepare(texts, given, self.tokens)
        device, classes_only = _device(self.encoder), self.finish is class_features
        return self.finish(self.encoder(inputs.to(device), mask.to(device), classes_only=classes_only))


def embed(
    source: Source,
    images: ImageSide | None,
    texts: TextSide | None,
    folder: Path,
    note: Mapping[str, Any],
    settings: Embedding = Embedding(),  # noqa: B008 (frozen)
) -> list[Path]:
    """Write the files that are not there yet and return the paths of all. `note` says what made them."""
    claim_folder(source, folder, note, settings)
    writer = part_writer(source, images, texts, folder, settings)
    writer.write_missing("embedding")
    return writer.files.paths()


def claim_folder(source: Source, folder: Place, note: Mapping[str, Any], settings: Embedding) -> None:
    """Raise UserError if the folder holds features of other data, models or settings."""
    other = {} if settings.format == SAFETENSORS else {"format": settings.format}  # older notes do not say it
    made = {"records": len(source), "per_shard": settings.per_shard, "half": settings.half, **other}
    claim(folder, {**note, **made}, NOTE)


def part_writer(
    source: Source, images: ImageSide | None, texts: TextSide | None, folder: Place, settings: Embedding
) -> PartWriter:
    for side in (images, texts):
        if side is not None:
            side.encoder.eval()
    bad = BadRecordCount(source.max_bad if can_crop(source) else 0.0, len(source))

    def fill(path: Path, batches: Iterator[range]) -> None:
        shard = _Shard()
        for batch in batches:
            shard.add(source, *encode_readable(images, source, batch, bad), texts)
        shard.write(path, torch.float16 if settings.half else torch.float32)

    files = NumberedFiles(folder, len(source), settings.per_shard, f".{settings.format}")
    return PartWriter(files, fill, settings.batch_size, bad)


def count_written(files: NumberedFiles) -> int:
    """Records in these files: pictures that could not be read are in none."""
    every = files.words("embed the data again")
    return sum(words["records"] if files.ending == f".{PARQUET}" else len(words["keys"]) for words in every)


class _Shard:
    """The content of one file."""

    def __init__(self) -> None:
        self.parts: dict[str, list[Tensor]] = {}
        self.pairs: list[Pair] = []
        self.owners: list[int] = []

    def add(self, source: Source, indices: Sequence[int], images: Tensor | None, texts: TextSide | None) -> None:
        if not indices:
            return
        pairs = [source.pair(index) for index in indices]
        if images is not None:
            self.parts.setdefault("image", []).append(images.cpu())
        if has_features(source) and source.text_width is not None:
            owners = source.text_features(indices)[2].tolist()
        else:
            owners = [place for place, pair in enumerate(pairs) for _ in pair.captions]
        if texts is not None and owners:
            self.parts.setdefault("text", []).append(texts(source, indices).cpu())
        self.owners += [len(self.pairs) + place for place in owners]
        self.pairs += pairs

    def write(self, path: Path, dtype: torch.dtype) -> None:
        tensors = {name: torch.cat(parts).to(dtype).contiguous() for name, parts in self.parts.items()}
        for name, tensor in tensors.items():
            if not tensor.isfinite().all():
                raise UserError(f"some {name} features of {path.name} are not finite in {dtype}; do not use --half")
        words: dict[str, list[Any]] = {"keys": [pair.key for pair in self.pairs]}
        if captions := [text for pair in self.pairs for text in pair.captions]:
            words["captions"] = captions
        if self.pairs and all(pair.label is not None for pair in self.pairs):
            words["label"] = [pair.label for pair in self.pairs]
        write = write_columns if path.suffix == f".{PARQUET}" else write_arrays
        write(path, {**tensors, "image_of_text": torch.tensor(self.owners, dtype=torch.long)}, words)


def encode_readable(
    images: ImageSide | None, source: Source, indices: Sequence[int], bad: BadRecordCount
) -> tuple[Sequence[int], Tensor | None]:
    """The indices of the pictures that can be read, and their features."""
    if images is None:
        return indices, None
    try:
        features = images(source, indices)
        bad.add(len(indices), ())
        return indices, features
    except BadRecord as error:
        if len(indices) > 1:
            halves = (indices[: len(indices) // 2], indices[len(indices) // 2 :])
            found = [encode_readable(images, source, half, bad) for half in halves]
            kept = [part for _, part in found if part is not None]
            return [index for some, _ in found for index in some], torch.cat(kept) if kept else None
        warnings.warn(f"left out {error.fault}", stacklevel=2)
        bad.add(1, (error.fault,))
        return [], None


def _device(module: torch.nn.Module) -> torch.device:
    first = next(module.parameters(), None)
    return torch.device("cpu") if first is None else first.device
