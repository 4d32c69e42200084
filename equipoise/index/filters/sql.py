"""A filter as SQL over a column `fields jsonb`: names and values are parameters, never text of the statement.

Texts are compared sign by sign (COLLATE "C"), as Python does; a condition on what a record does not have is false.
"""

from __future__ import annotations

from typing import Any

from equipoise.index.filters.parse import COMPARE, Condition, Filter, Not, Value, kind_of

JSON_KINDS = {"number": "number", "text": "string", "bool": "boolean"}
TYPES = {"number": "float8", "text": "text", "bool": "bool"}


def sql_of(tree: Filter) -> tuple[str, list[Any]]:
    """The condition with %s for its parameters, and these."""
    if isinstance(tree, Condition):
        parts = [_condition(tree, value) for value in tree.values]
        return _joined(" OR ", parts)
    if isinstance(tree, Not):
        inner, values = sql_of(tree.part)
        return f"(NOT {inner})", values
    return _joined(f" {tree.by.upper()} ", [sql_of(part) for part in tree.parts])


def _joined(by: str, parts: list[tuple[str, list[Any]]]) -> tuple[str, list[Any]]:
    return f"({by.join(text for text, _ in parts)})", [value for _, values in parts for value in values]


def _condition(condition: Condition, value: Value) -> tuple[str, list[Any]]:
    kind, name = kind_of(value), condition.field
    if condition.sign == "contains":
        holds = "position(lower(%s::text) in lower(fields->>%s)) > 0"
        values = [value, name]
    else:
        sign = "=" if condition.sign == "in" else condition.sign
        assert sign in COMPARE
        order = ' COLLATE "C"' if kind == "text" else ""
        holds = f"((fields->>%s)::{TYPES[kind]}){order} {sign} %s::{TYPES[kind]}"
        values = [name, value]
    # CASE, for the order in which AND is computed is the server's choice
    return f"(CASE WHEN jsonb_typeof(fields->%s) = '{JSON_KINDS[kind]}' THEN {holds} ELSE false END)", [name, *values]
