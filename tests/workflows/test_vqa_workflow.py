"""`equipoise vqa` as a person meets it: scenes, VQA's own files beside COCO's pictures, one sentence for a mistake."""

from __future__ import annotations

import json

import numpy as np
import pytest
from PIL import Image

from equipoise.cli import main

QUICK = ("--epochs", "2", "--hidden", "32", "--set", "data.train_size=120", "--set", "data.test_size=60")


def mistake(capsys, *words: object) -> str:
    """The one sentence of a call that fails."""
    capsys.readouterr()
    assert main([*map(str, words)]) == 2
    sentence = capsys.readouterr().err.splitlines()[-1]  # above it, how far the features got
    return sentence.removeprefix("equipoise: ")


def test_scenes_are_asked_about(finished_run, tmp_path, capsys):
    assert main(["vqa", str(finished_run), *QUICK, "--out", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert all(word in printed for word in ("question alone", "always", "guessing", "yes/no", "number", "other"))
    record = json.loads((tmp_path / "vqa.json").read_text())
    assert record["finding"] in printed
    assert record["command"].startswith("equipoise vqa ")
    asked = json.loads((tmp_path / "test_questions.json").read_text())["questions"]
    said = json.loads((tmp_path / "answers.json").read_text())
    assert [one["question_id"] for one in said] == [one["question_id"] for one in asked]
    truth = json.loads((tmp_path / "test_annotations.json").read_text())["annotations"]
    right = [a["answer"] == t["multiple_choice_answer"] for a, t in zip(said, truth, strict=True)]
    assert record["found"]["probe"]["all"] == {
        "right": pytest.approx(sum(right) / len(right)), "questions": len(right),
        "error": record["found"]["probe"]["all"]["error"],
    }  # fmt: skip
    topics = {t["question_type"] for t in truth}
    assert "relation" in topics
    assert set(record["by_topic"]["probe"]) == topics
    assert sum(one["questions"] for one in record["by_topic"]["probe"].values()) == len(truth)
    with Image.open(tmp_path / "vqa.png") as picture:
        assert min(picture.size) > 300
        assert len(set(picture.convert("L").resize((64, 64)).getdata())) > 8


@pytest.mark.slow
def test_the_same_seed_says_the_same_and_codes_are_no_obstacle(fdt_run, tmp_path):
    for name, seed in (("a", "0"), ("b", "0"), ("c", "1")):
        assert main(["vqa", str(fdt_run), *QUICK, "--seed", seed, "--out", str(tmp_path / name)]) == 0
    first, second, third = (json.loads((tmp_path / name / "vqa.json").read_text()) for name in "abc")
    assert first["found"] == second["found"]
    assert first["found"] != third["found"]
    files = [tmp_path / "a" / f"{name}.json" for name in ("train_questions", "train_annotations")]
    files += [tmp_path / "a" / f"{name}.json" for name in ("test_questions", "test_annotations")]
    words = [word for pair in zip(OPTIONS, map(str, files), strict=True) for word in pair]
    assert main(["vqa", str(fdt_run), *QUICK, *words, "--out", str(tmp_path / "files")]) == 0
    assert json.loads((tmp_path / "files" / "vqa.json").read_text())["found"] == first["found"]


OPTIONS = ("--questions", "--annotations", "--val-questions", "--val-annotations")


@pytest.fixture
def coco(tmp_path):
    """Pictures of two colours under COCO's names, and the words that name them with their questions."""
    words = ["COCO"]
    for split, count in (("train2014", 24), ("val2014", 10)):
        (tmp_path / "COCO" / split).mkdir(parents=True)
        questions, annotations = [], []
        for number in range(count):
            image = number + (1000 if split == "val2014" else 1)
            red = number % 2 == 0
            pixels = np.full((40, 50, 3), (220, 30, 30) if red else (30, 30, 220), dtype=np.uint8)
            Image.fromarray(pixels).save(tmp_path / "COCO" / split / f"COCO_{split}_{image:012d}.jpg")
            said = ["red", "Red.", "a red"] if red else ["blue"]
            answers = [{"answer": said[n % len(said)], "answer_id": n + 1} for n in range(10)]
            common = {"question_id": 10 * image, "image_id": image}
            questions.append({**common, "question": "What color is this?"})
            annotations.append({**common, "answer_type": "other", "answers": answers})
        for name, some in (("questions", questions), ("annotations", annotations)):
            (tmp_path / f"{split}_{name}.json").write_text(json.dumps({name: some}))
            words += [OPTIONS[len(words) // 2], str(tmp_path / f"{split}_{name}.json")]
    return [str(tmp_path / "COCO"), *words[1:]]


def test_vqa_files_beside_cocos_pictures(finished_run, coco, tmp_path, capsys):
    out = tmp_path / "out"
    assert main(["vqa", str(finished_run), *coco, "--epochs", "60", "--hidden", "32", "--out", str(out)]) == 0
    record = json.loads((out / "vqa.json").read_text())
    assert record["found"]["probe"]["all"]["right"] == 1  # two colours can be told apart by an untrained tower
    assert record["found"]["question alone"]["all"]["right"] == pytest.approx(0.5)
    assert (record["answers"], record["chance"]) == (2, {})
    assert not (out / "test_questions.json").exists()


def test_answers_to_hand_in_are_of_a_probe_trained_on_both(finished_run, coco, tmp_path, capsys):
    """Green is asked for in validation alone: only who learns from both can say it."""
    pixels = np.full((40, 50, 3), (30, 200, 30), dtype=np.uint8)
    questions, annotations = (json.loads((tmp_path / f"val2014_{name}.json").read_text()) for name in
                              ("questions", "annotations"))  # fmt: skip
    for number in range(2000, 2012):
        Image.fromarray(pixels).save(tmp_path / "COCO" / "val2014" / f"COCO_val2014_{number:012d}.jpg")
        common = {"question_id": 10 * number, "image_id": number}
        questions["questions"].append({**common, "question": "What color is this?"})
        green = {"answer_type": "other", "answers": [{"answer": "green"}] * 10}
        annotations["annotations"].append({**common, **green})
    (tmp_path / "val2014_questions.json").write_text(json.dumps(questions))
    (tmp_path / "val2014_annotations.json").write_text(json.dumps(annotations))
    hidden = [(1, "red"), (2, "blue"), (2000, "green"), (2001, "green")]
    asked = [{"question_id": 7 * n, "image_id": n, "question": "What color is this?"} for n, _ in hidden]
    (tmp_path / "test.json").write_text(json.dumps({"questions": asked}))
    out = tmp_path / "out"
    words = ["vqa", str(finished_run), *coco, "--test-questions", str(tmp_path / "test.json")]
    words += ["--epochs", "80", "--hidden", "32", "--out", str(out)]
    assert main(words) == 0
    handed = json.loads((out / "submission.json").read_text())
    assert handed == [{"question_id": 7 * n, "answer": colour} for n, colour in hidden]
    measured = json.loads((out / "answers.json").read_text())
    assert all(one["answer"] in ("red", "blue") for one in measured)  # of the probe that never saw green
    assert len(measured) == 22


def test_mistakes_of_what_is_handed_in(finished_run, coco, tmp_path, capsys):
    call = ("vqa", finished_run)
    test = tmp_path / "test.json"
    asked = {"question_id": 1, "image_id": 77, "question": "What?"}
    test.write_text(json.dumps({"questions": [asked]}))
    sentence = mistake(capsys, *call, *coco, "--test-questions", test)
    assert f"{test}: question 1 is about picture 77, which is none of" in sentence
    test.write_text(json.dumps({"questions": [{**asked, "image_id": 1}] * 2}))
    assert "is there twice" in mistake(capsys, *call, *coco, "--test-questions", test)
    assert "--questions is missing" in mistake(capsys, *call, coco[0], "--test-questions", test)
    assert "--test-data belongs to --test-questions" in mistake(capsys, *call, *coco, "--test-data", "x")


def test_mistakes(finished_run, coco, tmp_path, capsys):
    call = ("vqa", finished_run)
    assert mistake(capsys, *call, *coco[:3]).startswith("--annotations is missing; questions need all of")
    assert "belongs to files of questions" in mistake(capsys, *call, "--val-data", "x")
    assert mistake(capsys, *call, coco[0]).startswith("this data is no scenes, whose truth is known; give --questions")
    (tmp_path / "COCO" / "val2014" / "COCO_val2014_000000001003.jpg").unlink()
    sentence = mistake(capsys, *call, *coco)
    assert "val2014_questions.json: question 10030 is about picture 1003, which is none of the 33 that" in sentence
    (tmp_path / "train2014_questions.json").write_text("{")
    assert "train2014_questions.json is not JSON (line 1, column 2" in mistake(capsys, *call, *coco)
    common = {"question_id": 1, "image_id": 1}
    answered = {**common, "answer_type": "other", "answers": [{"answer": "red"}] * 10}
    for name, entry in (("questions", {**common, "question": "What?"}), ("annotations", answered)):
        for split in ("train2014", "val2014"):
            (tmp_path / f"{split}_{name}.json").write_text(json.dumps({name: [entry]}))
    assert 'have the same answer, "red", so there is nothing to learn' in mistake(capsys, *call, *coco)
    (tmp_path / "COCO" / "train2014" / "COCO_train2014_000000000001.jpg").write_bytes(b"no picture")
    assert "question 1 is about picture 1, which is none of the 32 that" in mistake(capsys, *call, *coco)


def test_objects_of_a_bad_file_are_refused_in_plain_words(finished_run, tmp_path, capsys):
    path = tmp_path / "bad.json"
    path.write_text('{"images": [')
    sentence = mistake(capsys, "completeness", finished_run, "--objects", path)
    assert sentence.startswith(f"{path} is not JSON (line 1, column 13: expecting value); give a file of objects")
    assert "Error" not in sentence
