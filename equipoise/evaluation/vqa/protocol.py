"""How many questions about pictures are answered right: the probe, beside what can be had without looking.

- `probe`: image and question (`probe.py`).
- `question alone`: the same head, trained the same way, that never sees a picture.
- `always "yes"`: the most frequent answer of the training questions, whatever is asked.

`answer_unseen` answers questions whose answers are known to VQA's server alone, as papers do for test-dev: the probe is
trained once more, with the same settings, on training and validation questions together.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor

from equipoise.data.vqa_questions import KINDS, Question
from equipoise.evaluation.vqa.answers import accuracies
from equipoise.evaluation.vqa.probe import (
    Inputs,
    OnStep,
    Scores,
    Targets,
    VqaProbeSettings,
    answerable,
    frequent_answers,
    predict,
    train_head,
)
from equipoise.types import UserError

PROBE, BLIND = "probe", "question alone"
Bar = Callable[[str, int], AbstractContextManager[OnStep]]  # what is trained, in how many steps


@dataclass(frozen=True)
class Accuracy:
    right: float  # mean of VQA's accuracy
    error: float  # its standard error, as if questions were independent
    questions: int


ByKind = dict[str, Accuracy]  # "all" and the kinds of answers that occur; or topics


@dataclass(frozen=True)
class QuestionSet:
    """Questions, the features of their pictures [M, d] and texts [T, d], and whose each question's are [N]."""

    questions: Sequence[Question]
    images: tuple[Tensor, Tensor]
    texts: tuple[Tensor, Tensor]


@dataclass(frozen=True)
class VqaResult:
    found: dict[str, ByKind]  # by who answers
    topics: dict[str, ByKind]  # the same by what is asked about, where that is known
    predictions: list[str]  # the probe's answers
    answers: int  # it chose among
    trained_on: int  # questions
    reach: float  # the accuracy of whoever chose the best of these answers


Parts = Callable[[QuestionSet], tuple[tuple[Tensor, Tensor], ...]]  # the features that a head sees


@dataclass(frozen=True)
class Lesson:
    """What a head learns from: questions, the answers it chooses among, and how right each is."""

    train: QuestionSet
    answers: list[str]
    kept: Tensor  # numbers of the questions that one of the answers is right for
    targets: Targets

    @classmethod
    def of(cls, train: QuestionSet, settings: VqaProbeSettings) -> Lesson:
        known = [accuracies(one.answers) for one in train.questions]
        answers = frequent_answers(known, settings.answers)
        kept = answerable(known, answers)
        targets = Targets([known[number] for number in kept.tolist()], answers, train.images[0].device)
        return cls(train, answers, kept, targets)

    def learn_and_answer(
        self, name: str, test: QuestionSet, parts: Parts, settings: VqaProbeSettings, bar: Bar
    ) -> list[str]:
        inputs = Inputs(parts(self.train)).select(self.kept.to(self.train.images[0].device))
        with bar(name, settings.steps(len(inputs))) as on_step:
            head = train_head(inputs, self.targets, settings, on_step)
        return predict(head, Inputs(parts(test)), self.answers)


def _seeing(part: QuestionSet) -> tuple[tuple[Tensor, Tensor], ...]:
    return part.images, part.texts


def answer_unseen(
    known: Sequence[QuestionSet],
    asked: QuestionSet,
    settings: VqaProbeSettings,
    bar: Bar = lambda *_: nullcontext(_quiet),
) -> list[str]:
    """The answers of a probe that was trained on all known questions."""
    return Lesson.of(joined_questions(known), settings).learn_and_answer(PROBE, asked, _seeing, settings, bar)


def joined_questions(parts: Sequence[QuestionSet]) -> QuestionSet:
    """Sets of questions as one; features are held once, in the order of the sets."""
    questions = [one for part in parts for one in part.questions]
    return QuestionSet(questions, _stacked([part.images for part in parts]), _stacked([part.texts for part in parts]))


def _stacked(parts: Sequence[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    features, places, before = [], [], 0
    for rows, which in parts:
        features.append(rows)
        places.append(which + before)
        before += len(rows)
    return torch.cat(features), torch.cat(places)


def answer_questions(
    train: QuestionSet, test: QuestionSet, settings: VqaProbeSettings, bar: Bar = lambda *_: nullcontext(_quiet)
) -> VqaResult:
    """Train on one set, answer the other, by the probe and without it."""
    for part in (train, test):
        if not part.questions:
            raise UserError("there are no questions to train on, or none to test on; give some of both")
    lesson, scores = Lesson.of(train, settings), [accuracies(one.answers) for one in test.questions]
    answers = lesson.answers
    seeing = lesson.learn_and_answer(PROBE, test, _seeing, settings, bar)
    blind = lesson.learn_and_answer(BLIND, test, lambda part: (part.texts,), settings, bar)
    given = {PROBE: seeing, BLIND: blind, f'always "{answers[0]}"': [answers[0]] * len(scores)}
    found = {name: by_kind(test.questions, replies, scores) for name, replies in given.items()}
    topics = {name: by_topic(test.questions, replies, scores) for name, replies in given.items()}
    known_answers = set(answers)
    best = [max((right for answer, right in one.items() if answer in known_answers), default=0.0) for one in scores]
    return VqaResult(found, topics, seeing, len(answers), len(lesson.kept), sum(best) / len(best))


def by_kind(questions: Sequence[Question], given: Sequence[str], scores: Sequence[Scores]) -> ByKind:
    """The accuracy of answers that are normalised, over all questions and by the kind of their answers."""
    right = _right(given, scores)
    grouped = _grouped([one.kind for one in questions], right)
    return {"all": _mean(right), **{kind: grouped[kind] for kind in KINDS if kind in grouped}}


def by_topic(questions: Sequence[Question], given: Sequence[str], scores: Sequence[Scores]) -> ByKind:
    """Accuracies by what is asked about, in the order of the alphabet; questions without a topic are left out."""
    grouped = _grouped([one.topic for one in questions], _right(given, scores))
    return {topic: grouped[topic] for topic in sorted(grouped) if topic}


def _right(given: Sequence[str], scores: Sequence[Scores]) -> list[float]:
    return [known.get(answer, 0.0) for answer, known in zip(given, scores, strict=True)]


def _grouped(names: Sequence[str], values: Sequence[float]) -> dict[str, Accuracy]:
    groups: dict[str, list[float]] = {}
    for name, value in zip(names, values, strict=True):
        groups.setdefault(name, []).append(value)
    return {name: _mean(values) for name, values in groups.items()}


def chance(questions: Sequence[Question]) -> dict[str, float]:
    """The accuracy of guessing among the answers that the same text has in this set, each as likely; "all" and by
    kind. It means something where the set is balanced."""
    options: dict[str, set[str]] = {}
    for one in questions:
        options.setdefault(one.text, set()).update(accuracies(one.answers))
    guesses = [(one.kind, sum(accuracies(one.answers).values()) / len(options[one.text])) for one in questions]
    kinds = ["all", *(kind for kind in KINDS if any(kind == other for other, _ in guesses))]
    return {kind: _mean([value for other, value in guesses if kind in ("all", other)]).right for kind in kinds}


def _quiet(_step: int, _loss: float) -> None:
    """Ignores progress."""


def _mean(values: Sequence[float]) -> Accuracy:
    mean = sum(values) / len(values)
    variance = sum((value - mean) ** 2 for value in values) / len(values)
    return Accuracy(mean, math.sqrt(variance / len(values)), len(values))
