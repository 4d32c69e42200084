"""The points and small pictures of data, written to numbered files from which an index is made.

    00000.safetensors    number [n] of each record in the data; image [n, d]; text [m, d] with text_of [m], the place of
                         each text's record; thumbs (bytes of JPEGs) and thumb_ends [n]

Work that was stopped goes on where it left off (`io/resumable.py`), and several processes may share it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from equipoise.data.bad_records import BadRecordCount
from equipoise.data.files.image_folder import is_picture
from equipoise.data.keep.readable import readable
from equipoise.data.part_writer import PartWriter
from equipoise.data.source import Pair, Source, can_crop, has_modalities
from equipoise.data.thumbnail import thumbnail_jpeg
from equipoise.index import Record
from equipoise.index.index import IMAGE, TEXT, picture_path
from equipoise.index.making import Rows
from equipoise.io.resumable import NumberedFiles, claim, write_arrays
from equipoise.models.compatibility import require_compatible
from equipoise.models.folder import read_tensors
from equipoise.models.modal_model import ModalModel
from equipoise.models.model import Model
from equipoise.types import UserError
from equipoise.workflows.embed.write import ImageSide, TextSide, encode_readable
from equipoise.workflows.engines import Engine, write_parts
from equipoise.workflows.index.modalities import indexed_modalities, modal_filler, modal_rows
from equipoise.workflows.load import load
from equipoise.workflows.subject import find_source, names_files

OF = {"images": (IMAGE,), "texts": (TEXT,), "both": (IMAGE, TEXT)}
NOTE = "embedding.json"


@dataclass(frozen=True)
class Wanted:
    """What is to be indexed."""

    model: Path
    data: str
    overrides: tuple[str, ...] = ()
    split: str | None = None
    of: str = ""  # one of OF, of modalities what `modalities.py` says; empty: images, or all modalities together
    batch_size: int = 256
    per_shard: int = 10_000
    engine: Engine = Engine()

    def __post_init__(self) -> None:
        names_files(self.data)  # a name with two meanings raises UserError before a model is loaded
        for name in ("batch_size", "per_shard"):
            if getattr(self, name) < 1:
                raise UserError(f"{name} must be at least 1, not {getattr(self, name)}")

    def source(self, model: Model) -> tuple[Source, dict[str, object]]:
        """The data without captions that the model cannot read, and a description of it."""
        source, about = find_source(self.data, self.overrides, self.split or "train", of_files=self.split is not None)
        require_compatible(model, source)
        return source if isinstance(model, ModalModel) else readable(source, model.tokens), about

    def parts(self, model: Model) -> tuple[str, ...]:
        """What has rows: images, texts, or modalities by their names; raises UserError for what the model lacks."""
        if isinstance(model, ModalModel):
            return indexed_modalities(model, self.of)
        if self.of and self.of not in OF:
            raise UserError(f'--of is "{self.of}", but this model reads images and texts; say {", ".join(OF)}')
        return OF[self.of or "images"]


@dataclass(frozen=True)
class Embedded:
    """Points of data, in files."""

    source: Source
    paths: Sequence[Path]
    of: tuple[str, ...]  # what has rows

    def rows(self) -> Iterator[Rows]:
        """All rows, file by file: images, then texts; or one modality after the other."""
        if has_modalities(self.source):
            yield from modal_rows(self.source, self.paths, self.of)
            return
        for path in self.paths:
            tensors = read_tensors(path)
            pairs = [self.source.pair(number) for number in tensors["number"].tolist()]
            thumbs = _cut(tensors["thumbs"], tensors["thumb_ends"])
            if IMAGE in self.of and "image" in tensors:
                yield Rows(tensors["image"], [image_record(pair) for pair in pairs], thumbs)
            if TEXT in self.of and "text" in tensors:
                owners = tensors["text_of"].tolist()
                yield Rows(tensors["text"], text_records(pairs, owners), [thumbs[owner] for owner in owners])


def embed(model: Model, wanted: Wanted, fingerprint: str, folder: Path) -> Embedded:
    """Write the files that are not there yet."""
    of = wanted.parts(model)
    source, about = wanted.source(model)
    if not len(source):
        raise UserError(f"{wanted.data}: there is nothing to index: the data has no records")
    note = {"model": fingerprint, "data": about, "of": list(of), "records": len(source), "per_shard": wanted.per_shard}
    claim(folder, note, NOTE)
    writer = part_writer(model, source, wanted, folder)
    write_parts(wanted.engine, writer, IndexJob(wanted, folder), "embedding", "--per-shard")
    return Embedded(source, writer.files.paths(), of)


@dataclass(frozen=True)
class IndexJob:
    """A model and a source of one's own, where another process is to write some of the files."""

    wanted: Wanted
    folder: Path

    def __call__(self) -> PartWriter:
        model = load(self.wanted.model, "auto")
        return part_writer(model, self.wanted.source(model)[0], self.wanted, self.folder)


def part_writer(model: Model, source: Source, wanted: Wanted, folder: Path) -> PartWriter:
    """What writes any of the files."""
    files = NumberedFiles(folder, len(source), wanted.per_shard)
    if isinstance(model, ModalModel):
        unread = BadRecordCount(0.0, len(source))  # arrays were read as the source was made
        return PartWriter(files, modal_filler(model, source, wanted.parts(model)), wanted.batch_size, unread)
    images = ImageSide(model.image_encoder, model.preprocess, lambda features: model.read("image", features))
    texts = TextSide(model.text_encoder, model.tokens, lambda features: model.read("text", features))
    of = wanted.parts(model)
    bad = BadRecordCount(source.max_bad if can_crop(source) else 0.0, len(source))

    def fill(path: Path, batches: Iterator[range]) -> None:
        file = _File()
        for batch in batches:
            numbers, points = encode_readable(images if IMAGE in of else None, source, batch, bad)
            file.add(source, numbers, points, texts if TEXT in of else None)
        write_arrays(path, file.tensors(), {})

    return PartWriter(files, fill, wanted.batch_size, bad)


class _File:
    """The content of one file."""

    def __init__(self) -> None:
        self.numbers: list[int] = []
        self.owners: list[int] = []
        self.thumbs: list[bytes] = []
        self.parts: dict[str, list[Tensor]] = {}

    def add(self, source: Source, numbers: Sequence[int], points: Tensor | None, texts: TextSide | None) -> None:
        if not len(numbers):
            return
        if points is not None:
            self.parts.setdefault("image", []).append(points.float().cpu())
        pairs = [source.pair(number) for number in numbers]
        if texts is not None and any(pair.captions for pair in pairs):
            self.parts.setdefault("text", []).append(texts(source, numbers).float().cpu())
            first = len(self.numbers)
            self.owners += [first + place for place, pair in enumerate(pairs) for _ in pair.captions]
        self.numbers += numbers
        self.thumbs += [thumbnail_jpeg(source, number) for number in numbers]

    def tensors(self) -> dict[str, Tensor]:
        ends = torch.tensor([0, *map(len, self.thumbs)]).cumsum(0)[1:]
        joined = bytearray(b"".join(self.thumbs))
        return {
            **{name: torch.cat(parts).contiguous() for name, parts in self.parts.items()},
            "number": torch.tensor(self.numbers, dtype=torch.long),
            "text_of": torch.tensor(self.owners, dtype=torch.long),
            "thumbs": torch.frombuffer(joined, dtype=torch.uint8) if joined else torch.empty(0, dtype=torch.uint8),
            "thumb_ends": ends,
        }


def _cut(joined: Tensor, ends: Tensor) -> list[bytes | None]:
    whole, stops = joined.numpy().tobytes(), [0, *ends.tolist()]
    return [whole[start:stop] or None for start, stop in pairwise(stops)]


def image_record(pair: Pair) -> Record:
    return Record(pair.key, pair.captions, picture_path(pair.key, is_picture(pair.key)), _side(pair), IMAGE)


def text_records(pairs: Sequence[Pair], owners: Sequence[int]) -> list[Record]:
    """A record for each text, those of one pair one after the other."""
    texts = [(pair, text) for pair in pairs for text in pair.captions]
    assert len(texts) == len(owners)
    return [replace(image_record(pair), captions=(text,), of=TEXT) for pair, text in texts]


def _side(pair: Pair) -> dict[str, Any]:
    known = {"label": pair.label, "tags": list(pair.tags)}
    return {**pair.truth, **{name: value for name, value in known.items() if value}}
