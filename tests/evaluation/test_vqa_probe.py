"""The probe on questions: its loss and targets against loops, what it can and cannot learn, the same bits by seed."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from equipoise.data.vqa_questions import Question
from equipoise.evaluation.vqa.answers import accuracies
from equipoise.evaluation.vqa.probe import (
    AnswerHead,
    Inputs,
    Targets,
    VqaProbeSettings,
    answerable,
    frequent_answers,
    predict,
    rate,
    train_head,
)
from equipoise.evaluation.vqa.protocol import BLIND, PROBE, QuestionSet, answer_questions, by_kind, by_topic, chance
from equipoise.types import UserError

COLOURS = ("red", "green", "blue", "black")
SETTINGS = VqaProbeSettings(hidden=64, epochs=25, batch_size=32)
SCORES = [{"yes": 1.0, "no": 0.3}, {"2": 0.9}, {"no": 1.0}, {"no": 0.6, "maybe": 0.3}, {}]


def question(number: int, text: str, kind: str, *answers: str) -> Question:
    return Question(number, number, text, kind, answers * (10 // len(answers)))


def picture_set(seed: int, pictures: int = 80) -> QuestionSet:
    """Pictures whose vector holds a colour and a size; "what colour" and "is it large" are asked of each."""
    chance = torch.Generator().manual_seed(seed)
    colours, large = (torch.arange(pictures) // step % count for step, count in ((1, 4), (4, 2)))
    images = torch.cat([torch.eye(4)[colours], torch.eye(2)[large]], dim=1)
    images = images + 0.05 * torch.randn(images.shape, generator=chance)
    questions = []
    for n in range(pictures):
        questions.append(question(2 * n, "what colour?", "other", COLOURS[colours[n]]))
        questions.append(question(2 * n + 1, "is it large?", "yes/no", "yes" if large[n] else "no"))
    both = torch.arange(2 * pictures)
    return QuestionSet(questions, (images, both // 2), (torch.eye(2), both % 2))


def test_it_learns_what_pictures_show_and_nothing_without_them():
    test = picture_set(1)
    found = answer_questions(picture_set(0), test, SETTINGS)
    assert found.found[PROBE]["all"].right == 1
    assert found.found[BLIND]["yes/no"].right == pytest.approx(0.5)  # balanced, so whatever it says
    assert found.found[BLIND]["other"].right == pytest.approx(0.25)
    assert chance(test.questions) == pytest.approx({"all": 0.375, "yes/no": 0.5, "other": 0.25})
    assert found.found['always "no"']["yes/no"].right == pytest.approx(0.5)
    assert found.found['always "no"']["other"].right == 0
    assert (found.answers, found.trained_on, found.reach) == (6, 160, 1.0)
    assert found.predictions[0] == "red"


def test_the_same_seed_gives_the_same_bits():
    train = picture_set(0)
    inputs = Inputs((train.images, train.texts))
    targets = Targets([accuracies(one.answers) for one in train.questions], [*COLOURS, "yes", "no"])

    def weights(seed: int) -> Tensor:
        head = train_head(inputs, targets, VqaProbeSettings(hidden=16, epochs=2, batch_size=96, seed=seed))
        return torch.cat([parameter.detach().flatten() for parameter in head.parameters()])

    torch.manual_seed(1)
    first = weights(0)
    torch.manual_seed(2)  # the global generator has no say
    assert torch.equal(first, weights(0))
    assert not torch.equal(first, weights(1))


def test_the_first_step_is_that_of_the_formula():
    """One batch: AdamW's first step goes by the sign of the gradient of Σ_a BCE, mean over questions."""
    scores, answers = SCORES[:3], ["no", "yes", "2"]
    features = torch.randn(3, 5, generator=torch.Generator().manual_seed(3))
    settings = VqaProbeSettings(hidden=4, epochs=1, batch_size=8, seed=5)
    inputs, losses = Inputs(((features, torch.arange(3)),)), []
    trained = train_head(inputs, Targets(scores, answers), settings, lambda _, loss: losses.append(loss))

    head = AnswerHead(5, settings, 3).double()
    before = [parameter.detach().clone() for parameter in head.parameters()]
    total = torch.zeros((), dtype=torch.float64)
    for row, one in zip(features.double(), scores, strict=True):
        hidden = head.first.weight @ row + head.first.bias
        hidden = hidden * 0.5 * (1 + torch.erf(hidden / math.sqrt(2)))
        z = head.second.weight @ hidden + head.second.bias
        for number, answer in enumerate(answers):
            share, y = 1 / (1 + torch.exp(-z[number])), one.get(answer, 0.0)
            total = total - (y * torch.log(share) + (1 - y) * torch.log(1 - share)) / 3
    total.backward()
    assert losses == pytest.approx([float(total.detach())], abs=1e-6)
    for old, new, parameter in zip(before, trained.parameters(), head.parameters(), strict=True):
        step = parameter.grad / (parameter.grad.abs() + 1e-8)
        expected = old * (1 - 5e-3 * 0.01) - 5e-3 * step
        assert torch.allclose(new.double(), expected, atol=2e-5)


def test_targets_are_accuracies_of_the_known_answers():
    answers = ["no", "2", "yes"]
    rows = Targets(SCORES, answers).rows(torch.tensor([3, 0, 1, 4]))
    expected = [[SCORES[n].get(answer, 0.0) for answer in answers] for n in (3, 0, 1, 4)]
    assert torch.equal(rows, torch.tensor(expected))


def test_the_most_frequent_answers_and_what_they_leave_out():
    assert frequent_answers(SCORES, 9) == ["no", "2", "yes"]  # by count, then by the alphabet; first answers only
    assert frequent_answers(SCORES, 2) == ["no", "2"]
    assert answerable(SCORES, ["2"]).tolist() == [1]
    assert answerable(SCORES, ["no", "2"]).tolist() == [0, 1, 2, 3]
    with pytest.raises(UserError, match='the same answer, "yes"'):
        frequent_answers(SCORES[:1] * 3, 9)


def test_an_answer_out_of_reach_counts_against_the_probe():
    train, test = picture_set(0), picture_set(1)
    found = answer_questions(
        train, test, VqaProbeSettings(answers=2, hidden=8, epochs=1)
    )  # yes and no are the most frequent
    assert (found.answers, found.trained_on) == (2, 80)
    assert found.reach == pytest.approx(0.5)
    assert found.found[PROBE]["other"].right == 0


def test_gathered_rows_are_those_of_each_question():
    images, texts = torch.arange(6.0).view(3, 2), torch.arange(10.0, 14).view(2, 2)
    inputs = Inputs(((images, torch.tensor([2, 0, 0])), (texts, torch.tensor([0, 1, 0]))))
    assert inputs.rows(torch.tensor([1, 0])).tolist() == [[0, 1, 12, 13], [4, 5, 10, 11]]
    assert (len(inputs), inputs.width) == (3, 4)
    assert inputs.select(torch.tensor([2])).rows(torch.tensor([0])).tolist() == [[0, 1, 10, 11]]


def test_answers_come_from_the_largest_score():
    head = AnswerHead(2, VqaProbeSettings(hidden=3), 2)
    features = torch.randn(5000, 2, generator=torch.Generator().manual_seed(0))
    inputs = Inputs(((features, torch.arange(5000)),))
    expected = ["ab"[int(row[1] > row[0])] for row in head(features)]
    assert predict(head, inputs, ["a", "b"]) == expected
    assert set(expected) == {"a", "b"}


def test_accuracy_by_kind_equals_a_loop():
    kinds = ["yes/no", "other", "yes/no", "other", "number"]
    questions = [question(n, "?", kind, "x") for n, kind in enumerate(kinds)]
    found = by_kind(questions, ["yes", "2", "yes", "maybe", "no"], SCORES)
    assert {kind: (one.right, one.questions) for kind, one in found.items()} == {
        "all": (pytest.approx((1 + 0.9 + 0 + 0.3 + 0) / 5), 5), "yes/no": (0.5, 2), "number": (0, 1),
        "other": (pytest.approx(0.6), 2),
    }  # fmt: skip
    named = [replace(one, topic=topic) for one, topic in zip(questions, ["b", "", "b", "a", "a"], strict=True)]
    topics = by_topic(named, ["yes", "2", "yes", "maybe", "no"], SCORES)
    assert {topic: (one.right, one.questions) for topic, one in topics.items()} == {
        "a": (pytest.approx(0.15), 2), "b": (0.5, 2),
    }  # fmt: skip
    assert list(topics) == ["a", "b"]
    assert found["yes/no"].error == pytest.approx(0.5 / math.sqrt(2))


def test_the_rate_falls_from_its_height_to_zero():
    assert [rate(done, 5e-3) for done in (0, 0.5, 1)] == pytest.approx([5e-3, 2.5e-3, 0])


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [({"answers": 1}, "--answers must be at least 2, not 1"), ({"batch_size": 0}, "--batch-size must be at least 1"),
     ({"learning_rate": 0.0}, "--learning-rate must be above 0")],
)  # fmt: skip
def test_settings_that_make_no_sense(wrong, sentence):
    with pytest.raises(UserError, match=sentence):
        VqaProbeSettings(**wrong)
