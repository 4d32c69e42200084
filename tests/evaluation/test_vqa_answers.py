"""VQA's rule: its accuracy against the ten subsets counted out, its normalisation case by case."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as some

from equipoise.evaluation.vqa.answers import accuracies, normalised


def by_the_rule(answer: str, people: list[str]) -> float:
    """Every person left out in turn."""
    total = 0.0
    for left_out in range(len(people)):
        agree = 0
        for number, other in enumerate(people):
            if number != left_out and other == answer:
                agree += 1
        total += min(agree / 3, 1)
    return total / len(people)


@given(some.lists(some.sampled_from("abcd").map(str.upper), min_size=4, max_size=13))
def test_accuracy_is_the_mean_over_the_subsets(people):
    people = [f"answer {letter.lower() * 2}" for letter in people]
    found = accuracies(people)
    assert set(found) == set(people)
    for answer, right in found.items():
        assert right == pytest.approx(by_the_rule(answer, people), abs=1e-15)
    assert [people.count(answer) for answer in found] == sorted(map(people.count, found), reverse=True)


def test_ten_people_give_the_well_known_steps():
    for count, right in enumerate([0.3, 0.6, 0.9, 1, 1, 1, 1, 1, 1, 1], start=1):
        people = ["cat"] * count + [f"dog {n}" for n in range(10 - count)]
        assert accuracies(people)["cat"] == pytest.approx(right)


def test_answers_are_compared_in_their_normal_form():
    people = ["Two", "2", "two.", "the two", "dont know", "don't know", "", "a", "A DOG!", "dog"]
    found = accuracies(people)
    assert set(found) == {"2", "don't know", "dog"}  # nothing is left of two of them
    assert (found["2"], found["dog"]) == (1, pytest.approx(0.6))


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("Yes", "yes"),
        ("yes.", "yes"),
        ("U.S.A.", "usa"),
        ("3.5", "3.5"),
        ("$3.50.", "$3.50"),
        (".5 inch", ".5 inch"),
        ("100,978", "100978"),
        ("1,000,000", "1000000"),
        ("red,white", "red white"),
        ("red, white", "red white"),
        ("black-and-white", "black and white"),
        ("left/right", "left right"),
        ("what?!", "what"),
        ('"stop"', "stop"),
        ("girl's", "girl's"),
        ("2:50 pm", "2:50 pm"),
        ("50%", "50%"),
        ("a dog", "dog"),
        ("The Man and an Apple", "man and apple"),
        ("theatre", "theatre"),
        ("zero", "0"),
        ("none", "0"),
        ("ten", "10"),
        ("someone", "someone"),
        ("dont", "don't"),
        ("wont", "won't"),
        ("cant", "can't"),
        ("couldve", "could've"),
        ("theyre", "they're"),
        ("whats", "what's"),
        ("im", "i'm"),
        ("oclock", "o'clock"),
        ("don't", "don't"),
        ("well", "well"),
        ("its", "its"),
        ("were", "were"),
        ("shed", "shed"),
        ("  new\n york\t", "new york"),
        ("the", ""),
        ("É", "é"),
    ],
)
def test_normalisation(given, expected):
    assert normalised(given) == expected
    assert normalised(expected) == expected  # once is enough
