"""Tables as a terminal shows them."""

from __future__ import annotations

import io

from rich.console import Console

from equipoise.io.tables import make_table, print_tables


def shown(table) -> str:
    out = io.StringIO()
    Console(file=out, width=60).print(table)
    return out.getvalue()


def test_text_is_to_the_left_and_numbers_to_the_right():
    rows = [("a", "1.0%"), ("a long name", "100.0%")]
    lines = shown(make_table(("metric", "value"), rows, title="what")).splitlines()
    assert lines[0].startswith("what")
    assert "│ a           │   1.0% │" in lines
    assert "│           a │   1.0% │" in shown(make_table(("metric", "value"), rows, text_columns=0)).splitlines()


def test_rows_and_columns_stand_out():
    table = make_table(("metric", "value"), [("a", "1"), ("b", "2")], bold=(1,), styles={"value": "dim"})
    assert [row.style for row in table.rows] == ["", "bold"]
    assert [column.style for column in table.columns] == ["", "dim"]


def test_several_are_printed_in_order(capsys):
    print_tables(*(make_table(("x",), [(word,)]) for word in ("one", "two")))
    printed = capsys.readouterr().out
    assert printed.index("one") < printed.index("two")
