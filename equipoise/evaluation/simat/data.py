"""SIMAT's task: questions, the pictures they are about, and the embeddings of both."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import torch
from torch import Tensor

from equipoise.data.features.source import FeatureFiles
from equipoise.data.files.simat.images import Cuts, ImageBox, ready_regions, regions_of_pictures
from equipoise.data.files.simat.tables import read_simat
from equipoise.data.scenes.corpus import Scenes
from equipoise.data.scenes.simat_questions import SimatSettings, scene_transformations
from equipoise.data.simat_questions import Transformations
from equipoise.data.source import Source
from equipoise.evaluation.encoding import encode_image_subset
from equipoise.evaluation.simat.sweep import SimatPoints, encoded_words
from equipoise.io.progress import Progress
from equipoise.models.compatibility import require_compatible
from equipoise.models.model import Model
from equipoise.types import UserError

BATCH = 256
KINDS = ("--images", "--crops", "--features")


@dataclass(frozen=True)
class SimatFiles:
    """SIMAT's tables and one of three kinds of pictures; none where scenes are transformed."""

    tables: Path | None = None
    images: Path | None = None  # Visual Genome's, from which regions are cut
    crops: Path | None = None  # regions, each in a file of its own
    features: Path | None = None  # of regions, as `equipoise embed` writes them
    oracle: str = ""

    def __post_init__(self) -> None:
        given = [path for path in (self.images, self.crops, self.features) if path is not None]
        if self.tables is None and (given or self.oracle):
            raise UserError(f"{', '.join(KINDS)} and --oracle belong to --files FOLDER; give that, or none for scenes")
        if self.tables is not None and len(given) != 1:
            raise UserError(f"--files has {len(given)} kinds of pictures with it; give one of {', '.join(KINDS)}")


@dataclass(frozen=True)
class SimatTask:
    """Questions, and the pictures of their database in its order."""

    questions: Transformations
    source: Source  # features, where those were given
    places: range | list[int]  # of the database's pictures in the source

    @property
    def can_be_seen(self) -> bool:
        return not isinstance(self.source, FeatureFiles)


def scene_task(source: Source, settings: SimatSettings) -> SimatTask:
    """Questions about scenes; raises UserError where `source` has none."""
    if not isinstance(source, Scenes):
        raise UserError("this data is no scenes, whose truth is known; give --files FOLDER, or a recipe of scenes")
    questions, gallery = scene_transformations(source.config, settings)
    return SimatTask(questions, gallery, range(len(gallery)))


def file_task(files: SimatFiles) -> SimatTask:
    """Questions of SIMAT's tables, with the pictures or features that were given with them."""
    assert files.tables is not None
    questions = read_simat(files.tables, files.oracle)
    if files.features is not None:
        features = FeatureFiles.Config(test=str(files.features)).build("test")
        return SimatTask(questions, features, _rows(features, questions.keys, files.features))
    captions = [" ".join(filter(None, triplet)) for triplet in questions.triplets]
    cuts = Cuts(_cuts(files, files.tables, questions.keys), questions.keys, captions)
    return SimatTask(questions, cuts, range(len(captions)))


def _cuts(files: SimatFiles, tables: Path, keys: tuple[str, ...]) -> list[ImageBox]:
    if files.images is not None:
        return regions_of_pictures(tables, files.images, keys)
    assert files.crops is not None
    return ready_regions(files.crops, keys)


def _rows(features: FeatureFiles, keys: tuple[str, ...], folder: Path) -> list[int]:
    """The row of each region, whose number is the name of its picture."""
    row = {PurePosixPath(features.pair(index).key).stem: index for index in range(len(features))}
    missing = next((key for key in keys if key not in row), None)
    if missing is not None:
        raise UserError(f"{folder} has no features with the key {missing}, which the database has; embed all regions")
    return [row[key] for key in keys]


def encode_task(model: Model, task: SimatTask) -> SimatPoints:
    """Embeddings of every picture and every word, each encoded once, on the model's device."""
    words = encoded_words(model, task.questions.words)
    encode = _encoder(model, task.source)
    pictures: list[Tensor] = []
    with Progress(len(task.places), "pictures") as progress:
        for start in range(0, len(task.places), BATCH):
            pictures.append(encode(task.places[start : start + BATCH]))
            progress.update(min(start + BATCH, len(task.places)))
    return SimatPoints(torch.cat(pictures), words)


def _encoder(model: Model, source: Source) -> Callable[[range | list[int]], Tensor]:
    """The function from indices of pictures to embeddings. For a model that reads pictures, given features are taken as
    its own embeddings."""
    if not isinstance(source, FeatureFiles):
        require_compatible(model, source)
        return lambda indices: encode_image_subset(model, source, indices, BATCH)
    reads_features = model.image_encoder.reads == "features"
    wide, what = (model.image_encoder.width, "encoder") if reads_features else (model.space.dim, "space")
    if source.image_width != wide:
        raise UserError(
            f"the features are {source.image_width} wide, but this model's {what} {wide}; write them with "
            f"`equipoise embed` by {'the encoder it was trained on' if reads_features else 'this model'}"
        )
    if reads_features:
        return lambda indices: encode_image_subset(model, source, indices, BATCH)
    return lambda indices: source.image_features(indices)[0].to(model.device).float()
