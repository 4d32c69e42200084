"""`equipoise regions`: detect regions and tags of pictures, by a detector that was asked for by name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from equipoise.data.files.file_source import FileSettings
from equipoise.data.files.records import Records
from equipoise.data.part_writer import PartWriter
from equipoise.detection.detect import Detection, DetectionRequest, claim_folder, part_writer
from equipoise.detection.detector import AnnotationDetector, Detector, SaliencyDetector
from equipoise.detection.external import open_detector
from equipoise.detection.features import Describe, ModelFeatures, pixels
from equipoise.detection.phrases import Phrases
from equipoise.detection.summary import summarise
from equipoise.detection.tags import ByCaption, ByVocabulary, Name, by_label
from equipoise.io.results_folder import Place, folder_of
from equipoise.models.folder import WEIGHTS, model_folder
from equipoise.models.model import Model
from equipoise.types import UserError
from equipoise.workflows.embed.encoders import digest_of
from equipoise.workflows.engines import Engine, write_parts
from equipoise.workflows.load import load
from equipoise.workflows.subject import find_parts


@dataclass(frozen=True)
class RegionsRequest:
    """The options of the command that choose detector, features and tags."""

    detector: str = "salient"  # salient, given, or a file
    labels: str = ""  # a file of class names for the detector's numbers
    model: str = ""  # a model folder that describes regions, instead of their pixels
    vocabulary: str = ""  # a file of names, among which the model chooses tags


@dataclass(frozen=True)
class RegionsJob:
    """Regions of one set of files."""

    request: RegionsRequest
    source: FileSettings
    patterns: tuple[str, ...]
    folder: Place
    settings: Detection
    phrases: Phrases | None = None  # learned from all captions, where tags are found in these

    def __call__(self) -> PartWriter:
        records, tools = self.source.records(self.patterns), _open(self.request, self.settings.most)
        return self.writer(records, tools)

    def writer(self, records: Records, tools: _Tools) -> PartWriter:
        request = DetectionRequest(tools.detector, tools.describe, self._namer(tools))
        return part_writer(records, request, self.folder, self.settings, self.source.max_bad)

    def _namer(self, tools: _Tools) -> Name:
        """Words of the vocabulary if there is one, else the detector's names if it has any, else captions' phrases."""
        if tools.words and tools.model is not None:
            return ByVocabulary(tools.model, tools.words)
        return by_label if self.phrases is None else ByCaption(self.phrases, self.settings.most)


def find_regions(
    request: RegionsRequest,
    data: str,
    overrides: Sequence[str],
    split: str | None,
    folder: Place,
    settings: Detection,
    engine: Engine = Engine(),  # noqa: B008 (frozen)
) -> None:
    """Detect regions in all pictures of a path, or of a recipe's split, and write them to `folder`."""
    if request.labels and request.detector in ("salient", "given"):
        kind = request.detector
        raise UserError(f"--labels names the classes of a detector from a file; {kind} has none, leave it out")
    parts = find_parts(data, overrides, split)
    tools = _open(request, settings.most)
    for part, (source, patterns) in parts.items():
        records, home = source.records(patterns), folder / part if len(parts) > 1 else folder
        if request.detector == "given" and not any(records.pair(index).boxes for index in range(len(records))):
            raise UserError(
                f"no record of {', '.join(patterns)} has boxes with tags in its .json; use --detector salient"
            )
        job = RegionsJob(request, source, patterns, home, settings, None if tools.names_tags else _phrases(records))
        note = {"data": [*patterns], "root": source.root, **_made_by(request)}
        writer = job.writer(records, tools)
        with folder_of(home).only_writer():
            claim_folder(records, home, note, settings)
            write_parts(engine, writer, job, "looking", "--per-file")
            summarise(records, writer.files)


@dataclass(frozen=True)
class _Tools:
    """What the options of the command name, opened."""

    detector: Detector
    names: Sequence[str]  # it has for what it finds
    words: Sequence[str]  # among which the model chooses
    model: Model | None

    @property
    def describe(self) -> Describe:
        return ModelFeatures(self.model) if self.model else pixels

    @property
    def names_tags(self) -> bool:
        """Whether tags come from elsewhere than captions."""
        return bool(self.words or self.names)


def _open(request: RegionsRequest, most: int) -> _Tools:
    model = load(request.model, "auto") if request.model else None
    detector, names = _detector(request, most)
    words = _lines(request.vocabulary) if request.vocabulary else ()
    if words and model is None:
        raise UserError("--vocabulary needs --model MODEL, which finds the word for each region")
    return _Tools(detector, names, words, model)


def _phrases(records: Records) -> Phrases:
    return Phrases.learned([caption for index in range(len(records)) for caption in records.pair(index).captions])


def _detector(request: RegionsRequest, most: int) -> tuple[Detector, tuple[str, ...]]:
    """The detector, and the names it has for what it finds."""
    if request.detector == "salient":
        return SaliencyDetector(most), ()
    if request.detector == "given":
        return AnnotationDetector(), ("given",)
    names = _lines(request.labels) if request.labels else ()
    return open_detector(Path(request.detector), names), names


def _made_by(request: RegionsRequest) -> dict[str, Any]:
    """The request, with a digest of the files it names, so that other files under the same names are noticed."""
    files = [Path(name) for name in (request.detector, request.labels, request.vocabulary) if Path(name).is_file()]
    weights = [model_folder(Path(request.model)) / WEIGHTS] if request.model else []
    return {**vars(request), "digest": digest_of(*files, *weights) if files or weights else ""}


def _lines(name: str) -> tuple[str, ...]:
    """The names in a text file, one per line."""
    try:
        lines = Path(name).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(
            f"{name}: this file of names cannot be read ({error}); give a text file, one name a line"
        ) from None
    found = tuple(" ".join(line.split()) for line in lines)
    while found and not found[-1]:
        found = found[:-1]
    if not found or not all(found):
        raise UserError(f"{name}: line {found.index('') + 1 if found else 1} is empty; give one name on each line")
    return found
