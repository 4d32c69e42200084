"""A filter over columns: which records it lets through, bool [N]."""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

from equipoise.index.columns import Columns
from equipoise.index.filters.parse import Condition, Filter, Not, Value, kind_of

SIGNS: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def allowed(tree: Filter, columns: Columns) -> np.ndarray:
    """Which of the records pass."""
    if isinstance(tree, Condition):
        return reduce(np.logical_or, (_holds(tree, value, columns) for value in tree.values))
    if isinstance(tree, Not):
        return ~allowed(tree.part, columns)
    join = np.logical_and if tree.by == "and" else np.logical_or
    return reduce(join, (allowed(part, columns) for part in tree.parts))


def _holds(condition: Condition, value: Value, columns: Columns) -> np.ndarray:
    name, sign, kind = condition.field, "=" if condition.sign == "in" else condition.sign, kind_of(value)
    if isinstance(value, str):
        part = value.lower()
        if sign == "contains":
            return columns.where_text(name, lambda text: part in text.lower())
        return columns.where_text(name, lambda text: SIGNS[sign](text, value))
    column = columns.column(name, kind)
    if column is None:
        return np.zeros(columns.count, bool)
    has = ~np.isnan(column) if kind == "number" else column >= 0
    return has & SIGNS[sign](column, value)
