from __future__ import annotations

import math
import tomllib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equipoise.settings.toml import dump, key_lines, literal

TRICKY = '''\
# a = 1
top = 1   # "not a [table]"
dotted.key = 2
"quoted key" = 3
'literal.key' = 4
"esc\\"aped" = 5
text = """
[fake]
fake_key = 1
ends with two quotes"""""
one_quote = """x"""" # " [
after_text = 6
raw = \'\'\'
also_fake = 1 \\\'\'\'
list = [
  1, # ] comment
  [2, 3],
  "]",
]
inline = {inner = 1, deep = {x = "}"}}
1.5 = 7

  [ table . sub ]  # comment
x = 1
[table]
y = 2
[table."odd.name"]
z = 3
[[array]]
w = 4
[[array]]
w = 5
'''


def test_lines_of_keys_in_tricky_text() -> None:
    tomllib.loads(TRICKY)
    found = key_lines(TRICKY)
    lines = TRICKY.splitlines()

    def line_with(start: str) -> int:
        return next(number for number, line in enumerate(lines, 1) if line.strip().startswith(start))

    assert found == {
        ("top",): 2,
        ("dotted",): 3,
        ("dotted", "key"): 3,
        ("quoted key",): 4,
        ("literal.key",): 5,
        ('esc"aped',): 6,
        ("text",): line_with("text ="),
        ("one_quote",): line_with("one_quote"),
        ("after_text",): line_with("after_text"),
        ("raw",): line_with("raw ="),
        ("list",): line_with("list ="),
        ("inline",): line_with("inline ="),
        ("1",): line_with("1.5"),
        ("1", "5"): line_with("1.5"),
        ("table",): line_with("[ table"),
        ("table", "sub"): line_with("[ table"),
        ("table", "sub", "x"): line_with("x ="),
        ("table", "y"): line_with("y ="),
        ("table", "odd.name"): line_with('[table."odd'),
        ("table", "odd.name", "z"): line_with("z ="),
        ("array",): line_with("[[array]]"),
        ("array", "w"): line_with("w ="),
    }


def test_lines_with_windows_newlines() -> None:
    assert key_lines('a = """\r\n"""\r\nb = 1\r\n') == {("a",): 1, ("b",): 3}


def test_no_lines_in_empty_text() -> None:
    assert key_lines("") == key_lines("\n# nothing\n") == {}


names = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
plain = st.one_of(st.booleans(), st.integers(), st.floats(allow_nan=False), names)
values = st.recursive(plain, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3))
tables = st.dictionaries(names, values, max_size=4)


@given(tables)
@settings(max_examples=100, deadline=None)
def test_dump_round_trips(table: dict[str, object]) -> None:
    back = tomllib.loads(dump(table))
    assert back == table
    assert repr(back) == repr(tomllib.loads(dump(back)))  # True and 1 and 1.0 are told apart


def paths(table: dict[str, object], key: tuple[str, ...] = ()) -> set[tuple[str, ...]]:
    nested = (paths(value, (*key, name)) for name, value in table.items() if isinstance(value, dict))
    return {(*key, name) for name in table}.union(*nested)


@given(tables)
@settings(max_examples=100, deadline=None)
def test_every_dumped_key_is_found_on_its_line(table: dict[str, object]) -> None:
    text = dump(table)
    found = key_lines(text)
    assert set(found) == paths(table)
    lines = text.split("\n")
    for key, line in found.items():
        assert literal(key[-1])[1:-1] in lines[line - 1]


def test_dump_reads_well() -> None:
    table = {
        "name": "run",
        "training": {"steps": 3, "rate": 1e-4, "betas": (0.9, 0.98)},
        "a": {"b": {"on": True}},
        "e": {},
    }
    assert dump(table) == (
        'name = "run"\n\n[training]\nsteps = 3\nrate = 0.0001\nbetas = [0.9, 0.98]\n\n[a.b]\non = true\n\n[e]\n'
    )


def test_special_floats() -> None:
    back = tomllib.loads(dump({"a": math.inf, "b": -math.inf, "c": math.nan, "d": 1e300, "e": -0.0}))
    assert (back["a"], back["b"], back["d"]) == (math.inf, -math.inf, 1e300)
    assert math.isnan(back["c"])
    assert math.copysign(1, back["e"]) == -1


def test_what_toml_cannot_hold_is_refused() -> None:
    with pytest.raises(TypeError, match="NoneType"):
        dump({"a": None})
