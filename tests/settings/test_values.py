from __future__ import annotations

import math
from typing import Any, Literal, Union

import pytest

from equipoise.settings.values import Mismatch, convert, expected

FITS: list[tuple[Any, Any, Any]] = [
    (3, int, 3),
    (3, float, 3.0),
    (2.5, float, 2.5),
    (math.inf, float, math.inf),
    (True, bool, True),
    ("a", str, "a"),
    ([1, 2], tuple[float, ...], (1.0, 2.0)),
    ([], tuple[int, ...], ()),
    ([[1], [2, 3]], tuple[tuple[int, ...], ...], ((1,), (2, 3))),
    ([1, "a"], tuple[int, str], (1, "a")),
    (3, int | None, 3),
    (3, Union[float, None], 3.0),  # noqa: UP007  (the older spelling is another type)
    ("a", int | str, "a"),
    (1, float | int, 1.0),
    ("b", Literal["a", "b"], "b"),
    (2, Literal[1, 2], 2),
]


@pytest.mark.parametrize(("value", "hint", "wanted"), FITS)
def test_what_fits(value: Any, hint: Any, wanted: Any) -> None:
    found = convert(value, hint)
    assert found == wanted
    assert repr(found) == repr(wanted)  # the type too: 3 == 3.0 == True


MISFITS: list[tuple[Any, Any]] = [
    (True, int),
    (1.0, int),
    ("3", int),
    (False, float),
    ("1.5", float),
    (10**400, float),
    (1, bool),
    ("true", bool),
    (1, str),
    ([1], str),
    (1, tuple[int, ...]),
    ("ab", tuple[str, ...]),
    ([1, True], tuple[int, ...]),
    ([1], tuple[int, str]),
    ([1, "a", 2], tuple[int, str]),
    ({}, int),
    ({}, tuple[int, ...]),
    ("c", Literal["a", "b"]),
    (True, Literal[1, 2]),
    (1.0, int | None),
]


@pytest.mark.parametrize(("value", "hint"), MISFITS)
def test_what_does_not_fit(value: Any, hint: Any) -> None:
    with pytest.raises(Mismatch) as error:
        convert(value, hint)
    assert str(error.value) == expected(hint)


def test_expectations_in_words() -> None:
    assert expected(int | None) == "a whole number"
    assert expected(float | bool) == "a number or true or false"
    assert expected(Literal["a", 2]) == 'one of "a", 2'
    assert expected(tuple[str, ...]) == "a list, each item text"
    assert expected(tuple[int, float]) == "a list of 2: a whole number, a number"


def test_a_type_that_no_recipe_can_hold_is_a_programmers_mistake() -> None:
    with pytest.raises(TypeError, match="bytes"):
        convert("a", bytes)
