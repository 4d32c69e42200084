"""Tables for the terminal, all in one style: text to the left, numbers to the right."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table


def make_table(
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    title: str = "",
    text_columns: int = 1,
    bold: Collection[int] = (),
    styles: Mapping[str, str] | None = None,
) -> Table:
    """`bold` are the numbers of rows that stand out, `styles` rich's styles of whole columns by their names."""
    from rich.table import Table

    table = Table(title=title or None, title_justify="left")
    for number, column in enumerate(columns):
        table.add_column(
            column, justify="left" if number < text_columns else "right", style=(styles or {}).get(column, "")
        )
    for number, row in enumerate(rows):
        table.add_row(*row, style="bold" if number in bold else "")
    return table


def print_tables(*tables: Table) -> None:
    from rich.console import Console

    console = Console()
    for table in tables:
        console.print(table)
