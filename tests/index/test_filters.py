"""Filters: what they mean, told by Python over the records themselves, and every mistake in one sentence."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from index_rows import SPACES, points_of, rows_of, small_index

from equipoise.index import Record
from equipoise.index.filters.parse import LONGEST, parse
from equipoise.index.folder import FolderIndex
from equipoise.index.write import add
from equipoise.types import UserError

COUNT = 120
MEANT: dict[str, Callable[[Record, dict[str, Any]], bool]] = {
    "year >= 2020": lambda r, s: s["year"] >= 2020,
    "year = 2003 or year = 2004 and good = true": lambda r, s: s["year"] == 2003 or (s["year"] == 2004 and s["good"]),
    "(year = 2003 or year = 2004) and good = true": lambda r, s: s["year"] in (2003, 2004) and s["good"],
    "NOT kind = 'photo'": lambda r, s: s["kind"] != "photo",
    "rare != 50": lambda r, s: "rare" in s and s["rare"] != 50,
    "not rare != 50": lambda r, s: "rare" not in s or s["rare"] == 50,
    "rare < 1e1": lambda r, s: s.get("rare", 99) < 10,
    "rare > -.5 and rare<=20": lambda r, s: 0 <= s.get("rare", 99) <= 20,
    'key in ("pic/3.jpg", "pic/77.jpg")': lambda r, s: r.key in ("pic/3.jpg", "pic/77.jpg"),
    'caption contains "CAPTION 11"': lambda r, s: "caption 11" in r.caption,
    'tags contains "t3"': lambda r, s: "t3" in s["tags"],
    'kind >= "e"': lambda r, s: s["kind"] == "photo",
    'of = "image" and good != true': lambda r, s: not s["good"],
    'mixed = "2" or mixed = 3': lambda r, s: s.get("mixed") in ("2", 3),
    'odd-name.x = "a \\"quoted\\" one"': lambda r, s: s.get("odd-name.x") == 'a "quoted" one',
}


@pytest.fixture(scope="module")
def index(tmp_path_factory) -> FolderIndex:
    folder = tmp_path_factory.mktemp("filters") / "index"
    small_index(folder, SPACES["sphere"], COUNT)
    rows = rows_of(points_of(SPACES["sphere"], 4, seed=2), COUNT)
    sides = [{"mixed": "2"}, {"mixed": 3}, {"mixed": True}, {"odd-name.x": 'a "quoted" one', "nested": {"a": 1}}]
    more = [Record(r.key, r.captions, r.picture, {**r.side, **s}) for r, s in zip(rows.records, sides, strict=True)]
    add(folder, [rows._replace(records=more)])
    return FolderIndex(folder)


@pytest.mark.parametrize("where", MEANT)
def test_a_filter_means_what_python_means(where, index):
    records = index.records(range(COUNT + 4))
    expected = [row for row, record in enumerate(records) if MEANT[where](record, dict(record.side))]
    assert 0 < len(expected) < COUNT + 4
    assert index.matching(where).tolist() == expected


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ("yaer > 3", r"did you mean year\?"),
        ('year = "2020"', "kind number"),
        ("kind > 3", "kind text"),
        ("nested = 1", "no record"),
        ("year >", "its end"),
        ("year > > 3", '"> 3"'),
        ("(year > 3", "closing bracket"),
        ("year > 3)", "the end"),
        ("year in 3", "opening bracket"),
        ("year in (3, )", "a number"),
        ("year contains 3", "in quotes"),
        ("good > true", "only = and !="),
        ("and", "name of a field"),
        ("year = 3 year = 4", "and, or"),
        ("year = __import__('os')", "a number"),
        ("year; DROP TABLE rows", "; DROP TABLE"),
        ('kind = "unclosed', "unclosed"),
        ("year = 12abc", "12abc"),
        ("(" * 60 + "year = 1" + ")" * 60, "deep"),
        ("year = 1 or " * 400 + "year = 1", f"{LONGEST:,}"),
        ("(year = 2003 or year = 2004) and good", "one of ="),
    ],
)
def test_a_mistake_is_one_sentence(where, said, index):
    with pytest.raises(UserError, match=said):
        index.search(points_of(SPACES["sphere"], 1), 3, where)


def test_any_text_is_a_filter_or_one_sentence():
    words = [
        "year",
        "kind",
        "=",
        "<",
        ">=",
        "(",
        ")",
        '"',
        "'",
        " ",
        "and",
        "or",
        "not",
        "in",
        ",",
        "0",
        "1.5",
        "\\",
        "é",
        "\0",
        "\n",
    ]
    draw = random.Random(0)
    outcomes = [outcome("".join(draw.choices(words, k=draw.randrange(12)))) for _ in range(3000)]
    assert not [said for said in outcomes if said is not None and ("\n" in said or "not understood" not in said)]
    assert None in outcomes


def outcome(where: str) -> str | None:
    """What is said of a filter; None where it is one."""
    try:
        parse(where)
        return None
    except UserError as error:
        return str(error)
