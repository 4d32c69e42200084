"""VQA's two files: read, written, matched with pictures; every way in which they can be wrong, in one sentence."""

from __future__ import annotations

import copy
import json

import pytest

from equipoise.data.files.coco import read_json
from equipoise.data.files.vqa_files import read_questions, write_questions
from equipoise.data.vqa_questions import Question, image_places
from equipoise.types import UserError

QUESTIONS = {
    "info": {"version": "2.0"}, "task_type": "Open-Ended", "data_type": "mscoco", "data_subtype": "val2014",
    "questions": [{"image_id": 262148, "question": "Where is he looking?", "question_id": 262148000},
                  {"image_id": 42, "question": "How many dogs are there?", "question_id": 42001}],
}  # fmt: skip
ANNOTATIONS = {
    "annotations": [
        {"question_type": "how many", "multiple_choice_answer": "2", "image_id": 42, "question_id": 42001,
         "answer_type": "number",
         "answers": [{"answer": "2", "answer_confidence": "yes", "answer_id": n} for n in range(1, 11)]},
        {"question_type": "none of the above", "multiple_choice_answer": "down", "image_id": 262148,
         "question_id": 262148000, "answer_type": "other",
         "answers": [{"answer": a, "answer_id": n} for n, a in enumerate(["down"] * 7 + ["at table", "", "up"], 1)]},
        {"image_id": 7, "question_id": 7, "answer_type": "other", "answers": []},
    ],
}  # fmt: skip


@pytest.fixture
def read(tmp_path):
    """Reads the two files after a change to them."""

    def after(change=lambda questions, annotations: None) -> list[Question]:
        tables = copy.deepcopy(QUESTIONS), copy.deepcopy(ANNOTATIONS)
        change(*tables)
        paths = tmp_path / "q.json", tmp_path / "a.json"
        for path, table in zip(paths, tables, strict=True):
            path.write_text(json.dumps(table))
        return read_questions(*paths)

    return after


def test_questions_with_their_answers_in_the_order_of_the_file(read, tmp_path):
    found = read()
    assert found == [
        Question(
            262148000,
            262148,
            "Where is he looking?",
            "other",
            (*["down"] * 7, "at table", "", "up"),
            "none of the above",
        ),
        Question(42001, 42, "How many dogs are there?", "number", ("2",) * 10, "how many"),
    ]
    write_questions(found, tmp_path / "q2.json", tmp_path / "a2.json")
    assert read_questions(tmp_path / "q2.json", tmp_path / "a2.json") == found
    assert json.loads((tmp_path / "a2.json").read_text())["annotations"][0]["multiple_choice_answer"] == "down"


def first(annotations: dict) -> dict:
    return annotations["annotations"][0]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda q, a: q["questions"].clear(), r"q\.json has no questions; give a file of questions in VQA's form"),
        (lambda q, a: q.pop("questions"), r'q\.json has no list "questions"'),
        (lambda q, a: q["questions"][1].pop("image_id"), r'q\.json: entry 1 of "questions" has no "image_id"'),
        (lambda q, a: q["questions"][1].update(question=" "), r"q\.json: question 42001 is empty"),
        (lambda q, a: q["questions"][1].update(image_id=[1]), r"question 42001 has the image_id \[1\]"),
        (lambda q, a: q["questions"].append(q["questions"][0]), r"q\.json: the question_id 262148000 is there twice"),
        (lambda q, a: a["annotations"].pop(0), r"a\.json has no annotation of question 42001 of .*q\.json"),
        (lambda q, a: a.update(annotations={}), r'a\.json has no list "annotations"'),
        (lambda q, a: first(a).pop("answers"), r'a\.json: entry 0 of "annotations" has no "answers"'),
        (lambda q, a: first(a).update(image_id=43), r"a\.json: question 42001 is about picture 43, but in .* about 42"),
        (lambda q, a: first(a).update(answer_type="count"), r"question 42001 has the answer_type 'count'; give one of"),
        (lambda q, a: first(a).update(answers=[]), r"a\.json: question 42001 has no answers"),
        (lambda q, a: first(a).update(answers=[{"answer": " "}] * 10), r"a\.json: question 42001 has no answers"),
        (lambda q, a: first(a).update(answers=[{"answer": "2"}]), r"question 42001 has 1 of the answers .* 4 or more"),
        (lambda q, a: first(a).update(answers=[{"answer": 2}] * 10), r"question 42001 has an answer that is not text"),
        (lambda q, a: first(a).update(answers=["2"] * 10), r"a\.json: question 42001 has no list of"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_of_file_and_record(read, change, sentence):
    with pytest.raises(UserError, match=sentence) as error:
        read(change)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b'{"a": [1,\n 2', r"is not JSON \(line 2, column 3: expecting ',' delimiter\); give a table"),
        (b"", r"is not JSON \(line 1, column 1: expecting value\)"),
        (b'{"a": "\xff"}', r"is not UTF-8 text \(byte 7\)"),
        (b"[1]", "holds no table of names and values"),
        (b"[" * 200_000, "is JSON that cannot be read|is not JSON"),
    ],
)
def test_json_that_cannot_be_read(tmp_path, content, sentence):
    path = tmp_path / "x.json"
    path.write_bytes(content)
    with pytest.raises(UserError, match=rf"x\.json {sentence}") as error:
        read_json(path, "a table")
    assert "Error(" not in str(error.value)
    with pytest.raises(UserError, match="No such file or directory; give a table"):
        read_json(tmp_path / "absent.json", "a table")


KEYS = ["val2014/COCO_val2014_000000262148.jpg", "000000000042", "a/7.jpg", "b/7.jpg", "test-0000003", "9x"]


def test_pictures_are_found_by_number_name_and_key():
    def about(*images: int | str) -> list[int]:
        return image_places(
            [Question(n, image, "?", "other", ("x",) * 10) for n, image in enumerate(images)], KEYS, "q"
        )

    assert about(262148, 42, "42", "000000000042", "test-0000003", "b/7.jpg", "9x") == [0, 1, 1, 1, 4, 3, 5]
    assert about("COCO_val2014_000000262148", "val2014/COCO_val2014_000000262148.jpg") == [0, 0]
    with pytest.raises(UserError, match=r"^q: question 1 is about picture 3"):
        about(42, 3)
    with pytest.raises(UserError, match=r"question 0 is about picture 7"):
        about(7)
