"""Questions and answers in the two files of VQA (v1 and v2, open-ended).

    questions     {"questions":   [{"question_id", "image_id", "question"}, ...]}
    annotations   {"annotations": [{"question_id", "image_id", "answer_type", "answers": [{"answer"}, ...]}, ...]}

Goyal et al. 2017, "Making the V in VQA Matter". What else the files hold (licence, confidences, ...) is left
alone, but for question_type. So is an annotation without a question; a question without one raises UserError.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from equipoise.data.files.coco import entries, read_json
from equipoise.data.vqa_questions import FEWEST, KINDS, PEOPLE, Question
from equipoise.io.atomic import write_text
from equipoise.types import UserError

FORM = "in VQA's form (docs/vqa.md)"


def read_questions(questions: Path, annotations: Path) -> list[Question]:
    """All questions with their answers, in their order."""
    listed, answered = _listed(questions), _by_question(annotations)
    return [_question(one, answered, questions, annotations) for one in listed]


def read_unanswered(questions: Path) -> list[Question]:
    """Questions whose answers nobody here knows (VQA's test and test-dev), in their order."""
    return [Question(*_asked(one, questions), "", ()) for one in _listed(questions)]


def write_submission(asked: Sequence[Question], answers: Sequence[str], path: Path) -> None:
    """What VQA's server takes: a list of question_id and answer, each question once."""
    given = [{"question_id": one.number, "answer": answer} for one, answer in zip(asked, answers, strict=True)]
    write_text(path, json.dumps(given, ensure_ascii=False) + "\n")


def _listed(questions: Path) -> list[dict[str, Any]]:
    wanted = f"a file of questions {FORM}"
    listed = entries(
        read_json(questions, wanted), "questions", ("question_id", "image_id", "question"), questions, wanted
    )
    if not listed:
        raise UserError(f"{questions} has no questions; give {wanted}")
    seen: set[int | str] = set()
    for one in listed:
        number = one["question_id"]
        if not isinstance(number, (int, str)) or number in seen:
            raise UserError(f"{questions}: the question_id {number} is there twice or is no number; give each its own")
        seen.add(number)
    return listed


def _by_question(path: Path) -> dict[Any, dict[str, Any]]:
    wanted = f"a file of annotations {FORM}"
    found = entries(
        read_json(path, wanted), "annotations", ("question_id", "image_id", "answer_type", "answers"), path, wanted
    )
    return {str(one["question_id"]): one for one in found}


def _question(one: dict[str, Any], answered: dict[Any, dict[str, Any]], questions: Path, annotations: Path) -> Question:
    number, image, text = _asked(one, questions)
    annotation = answered.get(str(number))
    if annotation is None:
        raise UserError(f"{annotations} has no annotation of question {number} of {questions}; give both of one split")
    place = f"{annotations}: question {number}"
    if annotation["image_id"] != image:
        raise UserError(f"{place} is about picture {annotation['image_id']}, but in {questions} about {image}")
    if annotation["answer_type"] not in KINDS:
        raise UserError(f"{place} has the answer_type {annotation['answer_type']!r}; give one of {', '.join(KINDS)}")
    answers, topic = _answers(annotation["answers"], place), str(annotation.get("question_type", ""))
    return Question(number, image, text, annotation["answer_type"], answers, topic)


def _asked(one: dict[str, Any], questions: Path) -> tuple[int | str, int | str, str]:
    """Its number, its picture and its text."""
    number, text, image = one["question_id"], one["question"], one["image_id"]
    if not isinstance(text, str) or not text.strip():
        raise UserError(f"{questions}: question {number} is empty; write one or leave it out")
    if not isinstance(image, (int, str)):
        raise UserError(f"{questions}: question {number} has the image_id {image}; give a number or a record's key")
    return number, image, text.strip()


def _answers(given: Any, place: str) -> tuple[str, ...]:
    if not isinstance(given, list) or not all(isinstance(one, dict) and "answer" in one for one in given):
        raise UserError(f'{place} has no list of {{"answer": ...}}; give the answers of {PEOPLE} people')
    answers = tuple(one["answer"] for one in given)
    if not all(isinstance(answer, str) for answer in answers):
        raise UserError(f"{place} has an answer that is not text; write it in quotes")
    if not any(answer.strip() for answer in answers):
        raise UserError(f"{place} has no answers; give those of {PEOPLE} people, or leave the question out")
    if len(answers) < FEWEST:
        raise UserError(
            f"{place} has {len(answers)} of the answers that the accuracy rule compares, which needs {FEWEST} or more; "
            f"give those of {PEOPLE} people, or repeat a single one {PEOPLE} times"
        )
    return answers


def write_questions(asked: Sequence[Question], questions: Path, annotations: Path) -> None:
    """Writes the two files that `read_questions` reads."""
    tables: dict[Path, dict[str, Any]] = {
        questions: {
            "task_type": "Open-Ended",
            "questions": [
                {"question_id": one.number, "image_id": one.image, "question": one.text} for one in asked
            ],
        },
        annotations: {"annotations": [_annotation(one) for one in asked]},
    }  # fmt: skip
    for path, table in tables.items():
        write_text(path, json.dumps(table, ensure_ascii=False) + "\n")


def _annotation(one: Question) -> dict[str, Any]:
    answers = [{"answer": answer, "answer_id": number} for number, answer in enumerate(one.answers, start=1)]
    return {
        "question_id": one.number, "image_id": one.image, "answer_type": one.kind, "question_type": one.topic,
        "multiple_choice_answer": Counter(one.answers).most_common(1)[0][0], "answers": answers,
    }  # fmt: skip
