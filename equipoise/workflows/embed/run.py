"""`equipoise embed` from beginning to end: open the encoders and the data, write the files, say how many."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from equipoise.data.keep.readable import readable
from equipoise.data.part_writer import PartWriter
from equipoise.data.source import ModalSource, Source, has_features, has_modalities
from equipoise.io.numbers import hand_over
from equipoise.io.results_folder import Place, folder_of
from equipoise.io.resumable import NumberedFiles
from equipoise.models.compatibility import require_compatible
from equipoise.models.folder import WEIGHTS, model_folder
from equipoise.models.modal_model import ModalModel
from equipoise.types import UserError
from equipoise.workflows.embed.encoders import EmbedRequest, digest_of, sides_of
from equipoise.workflows.embed.modalities import modal_part_writer
from equipoise.workflows.embed.write import SAFETENSORS, Embedding, claim_folder, count_written, part_writer
from equipoise.workflows.engines import Engine, write_parts
from equipoise.workflows.load import load
from equipoise.workflows.subject import find_source


@dataclass(frozen=True)
class Opened:
    """The data and the encoders, and what is noted of both beside the files."""

    source: Source
    writer: PartWriter
    note: dict[str, Any]


@dataclass(frozen=True)
class EmbedJob:
    """Features of a split of a recipe's data, or of the data at a path. Without a split that is the training data of a
    recipe, and all of the files."""

    request: EmbedRequest
    data: str
    overrides: tuple[str, ...]
    split: str | None
    folder: Place
    settings: Embedding

    def __call__(self) -> PartWriter:
        return self.open().writer

    def open(self) -> Opened:
        of_files = self.split is not None
        source, about = find_source(self.data, self.overrides, self.split or "train", of_files=of_files)
        return self._open_modalities(source, about) if has_modalities(source) else self._open_pairs(source, about)

    def _open_pairs(self, source: Source, about: dict[str, object]) -> Opened:
        request = self.request
        first = sides_of(request.model, request)
        second = sides_of(request.text, request) if request.text else first
        if request.text and second.texts is None:
            raise UserError(f"--text {request.text} reads no texts; give a model that does")
        for sides in (first, second):
            if sides.model is not None:
                require_compatible(sides.model, source)
        if second.texts is not None:
            source = readable(source, second.texts.tokens)
        of_images, of_texts = first.features(request), second.features(request)
        seen = {"pictures": first.images.seen} if first.images and not has_features(source) else {}
        note = {
            "model": request.model,
            "weights": first.digest,
            "text_model": request.text or request.model,
            "text_weights": second.digest,
            "features": of_images,
            **({"text_features": of_texts} if of_texts != of_images else {}),
            **seen,
            "data": about,
        }
        return Opened(source, part_writer(source, first.images, second.texts, self.folder, self.settings), note)

    def _open_modalities(self, source: ModalSource, about: dict[str, object]) -> Opened:
        request = self.request
        if request.text or request.before_projection:
            raise UserError("--text and --before-projection belong to images and texts; leave them out for modalities")
        if self.settings.format != SAFETENSORS:
            raise UserError("points of named modalities are written as safetensors alone; leave --format out")
        model = load(request.model, "auto")
        require_compatible(model, source)
        assert isinstance(model, ModalModel)
        digest = digest_of(model_folder(Path(request.model)) / WEIGHTS)
        note = {"model": request.model, "weights": digest, "modalities": list(model.modalities), "data": about}
        return Opened(source, modal_part_writer(model, source, self.folder, self.settings), note)


def embed_data(
    request: EmbedRequest,
    data: str,
    overrides: Sequence[str],
    split: str | None,
    folder: Place,
    settings: Embedding,
    engine: Engine = Engine(),  # noqa: B008 (frozen)
) -> NumberedFiles:
    """Write the features of `EmbedJob` to `folder` and return the files."""
    job = EmbedJob(request, data, tuple(overrides), split, folder, settings)
    opened = job.open()
    with folder_of(folder).only_writer():
        claim_folder(opened.source, folder, opened.note, settings)
        write_parts(engine, opened.writer, job, "embedding", "--per-shard")
    _tell(opened.source, opened.writer.files)
    return opened.writer.files


def _tell(source: Source, files: NumberedFiles) -> None:
    if has_modalities(source):
        records = len(source)
        print(f"The points of {records:,} samples are in {len(files)} files in {files.place}")
    else:
        records = count_written(files)
        left_out = f", {len(source) - records:,} that could not be read are left out" if records < len(source) else ""
        print(f"The features of {records:,} records are in {len(files)} files in {files.place}{left_out}")
    hand_over({"records": records, "files": len(files), "folder": str(files.place)})
