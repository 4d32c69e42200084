"""SIMAT against its scoring read aloud: loops in float64 over small tables made up here."""

from __future__ import annotations

import math
import random

import pytest
import torch

from equipoise.data.simat_questions import Oracle, Transformation, Transformations, counted
from equipoise.evaluation.simat.score import answer, chance, scored
from equipoise.evaluation.simat.sweep import LAMBDAS, SimatPoints, checked, chosen, named, sweep
from equipoise.types import UserError

WORDS = ("dog", "cat", "rug", "bed", "on", "under")
FIELDS = {"dog": "subj", "cat": "subj", "rug": "obj", "bed": "obj", "on": "rel", "under": "rel"}


def made_up(seed: int, pictures: int = 13, captions: int = 5, count: int = 40, dim: int = 4):
    """Points and questions without any sense; coordinates are few whole numbers, so that ties are frequent."""
    rng = random.Random(seed)
    x = torch.tensor([[rng.randint(-2, 2) for _ in range(dim)] for _ in range(pictures)], dtype=torch.float64)
    words = {word: torch.tensor([rng.randint(-2, 2) for _ in range(dim)], dtype=torch.float64) for word in WORDS}
    asked = []
    for number in range(count):
        value, target = rng.sample(WORDS, 2)
        source, caption, test = rng.randrange(pictures), rng.randrange(captions), rng.random() < 0.5
        asked.append(Transformation(number, source, FIELDS[value], value, target, caption, rng.randint(1, 9), test))
    scores = torch.tensor([[rng.choice([0.1, 0.5, 0.7]) for _ in range(captions)] for _ in range(pictures)])
    return x, words, asked, Oracle("made up", scores)


def found_by_hand(x, words, one: Transformation, oracle: Oracle, lam: float) -> tuple[float, bool]:
    """The largest inner product but the source's, and whether all pictures that reach it are right."""
    query = [x[one.source][k] + lam * (words[one.target][k] - words[one.value][k]) for k in range(x.shape[1])]
    products = {i: math.fsum(float(query[k] * x[i][k]) for k in range(x.shape[1])) for i in range(len(x))}
    del products[one.source]
    largest = max(products.values())
    return largest, all(oracle.scores[i, one.caption] > 0.5 for i, value in products.items() if value == largest)


def score_by_hand(asked, right) -> float:
    weighted = sum(one.alike**-0.5 for one, is_right in zip(asked, right, strict=True) if is_right)
    return 100 * weighted / sum(one.alike**-0.5 for one in asked)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("tile", [1, 50, 2**22])  # one query at a time, three, all
def test_the_score_is_the_papers_read_aloud(seed, tile):
    x, words, asked, oracle = made_up(seed)
    lambdas = (0.0, 0.5, 1.0, 3.0)
    ties = 0
    for lam, answers in zip(lambdas, answer(x, words, asked, oracle, lambdas, tile), strict=True):
        by_hand = [found_by_hand(x, words, one, oracle, lam) for one in asked]
        assert answers.right.tolist() == [right for _, right in by_hand]
        for one, place, (largest, right) in zip(asked, answers.found.tolist(), by_hand, strict=True):
            query = x[one.source] + lam * (words[one.target] - words[one.value])
            assert place != one.source
            assert float(query @ x[place]) == largest
            assert (oracle.scores[place, one.caption] > 0.5).item() == right
            ties += int((x @ query == largest).sum()) > 1
        scores = scored(asked, answers.right)
        assert scores["all"].score == pytest.approx(score_by_hand(asked, answers.right), abs=1e-12)
        for field in ("subj", "rel", "obj"):
            some = [(one, r) for one, r in zip(asked, answers.right, strict=True) if one.field == field]
            assert scores[field].score == pytest.approx(score_by_hand(*zip(*some, strict=True)), abs=1e-12)
            assert scores[field].questions == len(some)
    assert ties > 10  # or the rule for ties was not tried


def test_lambda_0_finds_the_nearest_neighbour_whatever_the_words():
    make = torch.Generator().manual_seed(0)
    x = torch.nn.functional.normalize(torch.randn(30, 8, generator=make).double(), dim=1)
    words = {word: torch.randn(8, generator=make).double() for word in WORDS}
    asked = [Transformation(i, i, "obj", "rug", "bed", 0) for i in range(30)]
    found = answer(x, words, asked, Oracle("none", torch.zeros(30, 1)), [0.0])[0].found
    distances = torch.cdist(x, x).fill_diagonal_(torch.inf)
    assert found.tolist() == distances.argmin(1).tolist()


def test_rare_words_weigh_as_norm2_says():
    asked = [
        Transformation(0, 0, "obj", "rug", "bed", 0, alike=4),
        Transformation(1, 0, "obj", "bed", "rug", 0, alike=1),
    ]
    assert scored(asked, torch.tensor([True, False]))["all"].score == pytest.approx(100 * 0.5 / 1.5)
    assert scored(asked, torch.tensor([False, True]))["all"].score == pytest.approx(100 / 1.5)


def test_equal_points_score_nothing_while_anything_is_wrong():
    x, words = torch.ones(6, 3), dict.fromkeys(WORDS, torch.ones(3))
    oracle = Oracle("one wrong", torch.tensor([[1.0], [1.0], [1.0], [0.2], [1.0], [1.0]]))
    asked = [Transformation(i, i, "obj", "rug", "bed", 0) for i in range(6)]
    answers = answer(x, words, asked, oracle, [1.0])[0]
    assert answers.right.tolist() == [False] * 3 + [True] + [False] * 2  # the source itself is never found
    assert answers.found.tolist() == [3, 3, 3, 0, 3, 3]


def test_half_precision_and_nan():
    x, words, asked, oracle = made_up(1)
    halves = answer(x.half(), {word: point.half() for word, point in words.items()}, asked, oracle, [1.0])[0]
    assert halves.right.tolist() == answer(x, words, asked, oracle, [1.0])[0].right.tolist()
    x[3, 0] = torch.nan
    with pytest.raises(UserError, match="not finite"):
        answer(x, words, asked, oracle, [1.0])


def test_chance_is_the_mean_over_all_pictures_but_the_source():
    _, _, asked, oracle = made_up(2)
    shares = []
    for one in asked:
        others = [i for i in range(len(oracle.scores)) if i != one.source]
        shares.append(sum(float(oracle.scores[i, one.caption]) > 0.5 for i in others) / len(others))
    expected = sum(s * o.alike**-0.5 for s, o in zip(shares, asked, strict=True)) / sum(o.alike**-0.5 for o in asked)
    assert chance(asked, oracle)["all"].score == pytest.approx(100 * expected, abs=1e-9)


def a_set(asked, oracle) -> Transformations:
    n, c = oracle.scores.shape
    return Transformations(tuple(asked), tuple(map(str, range(n))), (("a", "b", "c"),) * n, ("x",) * c, oracle)


def test_lambda_is_chosen_on_dev_and_reported_on_test():
    x, words, asked, oracle = made_up(3, count=60)
    lambdas = (0.0, 0.5, 1.0, 2.0, 5.0)
    found = sweep(SimatPoints(x, words), a_set(asked, oracle), lambdas)
    table = {}
    for split, test in (("dev", False), ("test", True)):
        some = [one for one in asked if one.is_test == test]
        table[split] = [
            score_by_hand(some, [found_by_hand(x, words, one, oracle, lam)[1] for one in some]) for lam in lambdas
        ]
        assert [scores["all"].score for scores in found[split].scores] == pytest.approx(table[split])
    best = table["dev"].index(max(table["dev"]))
    numbers = named(found)
    assert (numbers["simat_lambda"], numbers["simat_dev_max"]) == (lambdas[best], pytest.approx(table["dev"][best]))
    assert numbers["simat"] == pytest.approx(table["test"][best])
    assert numbers["simat_dev_lambda_1"] == pytest.approx(table["dev"][2])
    assert numbers["simat_test_lambda_1"] == pytest.approx(table["test"][2])
    assert {"simat_subj", "simat_rel", "simat_obj", "simat_test_chance", "simat_error"} <= set(numbers)


def test_without_dev_only_a_single_lambda_is_reported():
    x, words, asked, oracle = made_up(3)
    only_test = a_set([one for one in asked if one.is_test], oracle)
    assert chosen(sweep(SimatPoints(x, words), only_test, (1.0, 2.0))) is None
    assert "simat" not in named(sweep(SimatPoints(x, words), only_test, (1.0, 2.0)))
    assert "simat" in named(sweep(SimatPoints(x, words), only_test, (2.0,)))


def test_the_lambdas_of_the_release_and_bad_ones():
    assert LAMBDAS == (0.5, 1, 1.5, 2, 2.5, 3, 3.5, 4, 4.5, 5, 5.5, 6, 7)
    assert checked([0, 2]) == (0.0, 2.0)
    for bad, said in (([], "no λ"), ([-1.0], "λ is -1"), ([math.nan], "λ is nan"), ([1.0, 1.0], "given twice")):
        with pytest.raises(UserError, match=said):
            checked(bad)


def test_a_set_that_does_not_fit_together_is_refused():
    _, _, asked, oracle = made_up(0)
    with pytest.raises(UserError, match=r"has the shape \[13, 5\]"):
        Transformations(tuple(asked), ("k",) * 13, (("a", "b", "c"),) * 13, ("x",) * 4, oracle)
    with pytest.raises(UserError, match="no transformations"):
        a_set([], oracle)
    assert [one.alike for one in counted(asked)] == [sum(o.value == one.value for o in asked) for one in asked]
