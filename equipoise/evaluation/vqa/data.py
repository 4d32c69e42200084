"""VQA's two sets: questions, the pictures they are about, and the features of both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass
from pathlib import Path

import torch
from torch import Tensor

from equipoise.data.files.vqa_files import read_questions
from equipoise.data.scenes.annotation import has_scene
from equipoise.data.scenes.vqa_balance import scene_questions
from equipoise.data.source import Source
from equipoise.data.vqa_questions import Question
from equipoise.evaluation.encoding import encode_image_subset
from equipoise.evaluation.vqa.protocol import QuestionSet
from equipoise.io.progress import Progress
from equipoise.models.compatibility import require_compatible
from equipoise.models.model import Model
from equipoise.types import UserError

BATCH = 256
OPTIONS = ("--questions", "--annotations", "--val-questions", "--val-annotations")


@dataclass(frozen=True)
class VqaFiles:
    """Files of VQA's questions and annotations; none where the questions are about scenes."""

    questions: Path | None = None
    annotations: Path | None = None
    val_questions: Path | None = None
    val_annotations: Path | None = None
    test_questions: Path | None = None  # without annotations: answers to hand in

    def __post_init__(self) -> None:
        given = [one is not None for one in astuple(self)]
        answered = given[: len(OPTIONS)]
        if any(given) and not all(answered):
            missing = OPTIONS[answered.index(False)]
            raise UserError(f"{missing} is missing; questions need all of {', '.join(OPTIONS)}, or none for scenes")

    def pairs(self) -> list[tuple[Path, Path]]:
        """Questions and annotations, to train on and to test on."""
        both = (self.questions, self.annotations), (self.val_questions, self.val_annotations)
        return [(asks, answers) for asks, answers in both if asks is not None and answers is not None]


def questions_of(train: Source, test: Source, files: VqaFiles, seed: int) -> list[list[Question]]:
    """Questions to train on and to test on: from the files, or about scenes."""
    if files.questions is not None:
        return [read_questions(*some) for some in files.pairs()]
    pairs = [[source.pair(index) for index in range(len(source))] for source in (train, test)]
    if not all(has_scene(pair) for some in pairs for pair in some):
        raise UserError(f"this data is no scenes, whose truth is known; give {', '.join(OPTIONS)}")
    return [scene_questions(some, seed) for some in pairs]


@torch.no_grad()
def encoded(
    model: Model, source: Source, questions: Sequence[Question], places: Sequence[int], what: str
) -> QuestionSet:
    """Encode every picture and every question once, on the model's device."""
    require_compatible(model, source)
    if model.text_encoder.reads != "words":
        raise UserError("this model reads features of texts, so it cannot read questions; give one that reads words")
    indices, texts = sorted(set(places)), list(dict.fromkeys(one.text for one in questions))
    with Progress(len(indices) + len(texts), f"features {what}") as progress:
        images: list[Tensor] = []
        for start in range(0, len(indices), BATCH):
            images.append(encode_image_subset(model, source, indices[start : start + BATCH], BATCH).float())
            progress.update(min(start + BATCH, len(indices)))
        points: list[Tensor] = []
        for start in range(0, len(texts), BATCH):
            points.append(model.encode_text(texts[start : start + BATCH], BATCH).float())
            progress.update(len(indices) + min(start + BATCH, len(texts)))
    row, line = ({item: number for number, item in enumerate(items)} for items in (indices, texts))
    which = torch.tensor([row[place] for place in places], device=model.device)
    text_rows = torch.tensor([line[one.text] for one in questions], device=model.device)
    return QuestionSet(questions, (torch.cat(images), which), (torch.cat(points), text_rows))
