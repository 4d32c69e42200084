"""Verdicts of rules on values made by hand."""

from __future__ import annotations

import pytest

from equipoise.claims.metric import METRICS
from equipoise.claims.rule import (
    FAILS,
    HOLDS,
    IN_PART,
    NO_VERDICT,
    NOT_RUN,
    NOT_TESTABLE,
    UNDECIDED,
    Part,
    Precondition,
    ahead,
    decide,
    gains_more,
    grows,
    judge_part,
    keeps,
    level,
    loses,
    room,
)

BASE = [20.0, 21.0, 19.0, 20.5, 19.5]
ABOVE = [value + gain for value, gain in zip(BASE, (2.0, 2.5, 1.5, 2.2, 1.8), strict=True)]
BELOW = [value - 3 for value in BASE]
SAME = [value + gain for value, gain in zip(BASE, (0.1, -0.1, 0.05, -0.05, 0.0), strict=True)]
WILD = [value + gain for value, gain in zip(BASE, (6.0, -5.0, 4.0, -3.0, 2.0), strict=True)]


def values(**rows: list[float | None]) -> dict[str, dict[str, list[float | None]]]:
    return {name: {"R@1": column} for name, column in {"base": BASE, **rows}.items()}


def word(part: Part, **rows: list[float | None]) -> str:
    judged = judge_part(part, values(**rows))
    assert judged
    return judged.word


def test_a_part_holds_does_not_hold_or_is_undecided() -> None:
    part = ahead("idea", "base")
    assert word(part, idea=ABOVE) == HOLDS
    assert word(part, idea=BELOW) == FAILS
    assert word(part, idea=SAME) == FAILS, "no difference as large as the margin"
    assert word(part, idea=WILD) == UNDECIDED


def test_a_part_that_says_level() -> None:
    part = level("idea", "base", "R@1", 1.0)
    assert word(part, idea=SAME) == HOLDS
    assert word(part, idea=ABOVE) == FAILS
    assert word(part, idea=WILD) == UNDECIDED


def test_shares_slopes_and_differences_of_differences() -> None:
    half = [value / 4 for value in BASE]
    assert word(loses("low", 0.5, "base"), low=half) == HOLDS
    assert word(keeps("low", 0.5, "base"), low=half) == FAILS
    steps = {f"step {n}": [value + 0.7 * n for value in BASE] for n in range(4)}
    slope = judge_part(grows(list(steps), "R@1", 0.1, "it grows"), values(**steps))
    assert slope
    assert (slope.mean, slope.word) == (pytest.approx(0.7), HOLDS)
    told = judge_part(gains_more(("idea", "base"), ("other", "base")), values(idea=ABOVE, other=SAME))
    assert told
    assert (told.mean, told.word) == (pytest.approx(2.0), HOLDS)


def test_a_constant_is_what_a_number_is_compared_with() -> None:
    part = Part("above 15", "R@1", (("base", 1.0),), 1.0, constant=15.0)
    judged = judge_part(part, values())
    assert judged
    assert (judged.mean, judged.word) == (pytest.approx(5.0), HOLDS)


def test_seeds_are_paired_and_one_that_is_missing_is_left_out() -> None:
    part = ahead("idea", "base")
    assert part.differences(values(idea=[None, 23.0, None, 21.5, 20.0])) == pytest.approx([2.0, 1.0, 0.5])


def test_verdicts_of_several_parts() -> None:
    idea, other, base = ahead("idea", "base"), ahead("other", "base"), room("base")
    assert decide([idea], [base], values(idea=ABOVE)).word == HOLDS
    assert decide([idea], [base], values(idea=SAME)).word == FAILS
    assert decide([idea], [base], values(idea=WILD)).word == UNDECIDED
    part = decide([idea, other], [base], values(idea=ABOVE, other=SAME))
    assert (part.word, part.why) == (IN_PART, "idea is ahead of base")
    assert decide([idea, other], [base], values(idea=WILD, other=SAME)).word == FAILS
    assert decide([idea, other], [base], values(idea=ABOVE, other=WILD)).word == IN_PART


def test_without_room_or_seeds_there_is_no_verdict() -> None:
    idea = ahead("idea", "base")
    told = decide([idea], [room("base", least=30.0)], values(idea=ABOVE))
    assert told.word == NOT_TESTABLE
    assert "at least 30" in told.why
    assert decide([idea], [room("base", "mAP@R")], values(idea=ABOVE)).word == NOT_TESTABLE, "it was not measured"
    few = decide([idea], [], {name: {"R@1": column["R@1"][:4]} for name, column in values(idea=ABOVE).items()})
    assert few.word == NO_VERDICT
    assert "4 paired seeds" in few.why
    assert decide([idea], [], values()).word == NOT_RUN
    assert (
        decide([idea], [Precondition("x", "R@1", (("base", 1.0),), most=10.0)], values(idea=ABOVE)).word == NOT_TESTABLE
    )


def test_a_model_without_a_matching_head_is_ranked_by_its_points() -> None:
    points = {f"test/retrieval/{way}_R@1": 0.2 for way in ("image_to_text", "text_to_image")}
    again = {f"test/two_stage/{way}_R@1": 0.3 for way in ("image_to_text", "text_to_image")}
    ranked = METRICS["ranked R@1"]
    assert ranked.of(points) == pytest.approx(20.0)
    assert ranked.of({**points, **again}) == pytest.approx(30.0)
    half = dict(list(again.items())[:1])
    assert ranked.of({**points, **half}) is None, "half of a second stage is no number"
