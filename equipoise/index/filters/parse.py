"""The language of filters, from text to a tree. Nothing of it is ever run.

    year >= 2020 and (kind = "photo" or label in ("cat", "dog")) and not caption contains "logo"

    condition   FIELD = != < <= > >= VALUE  ·  FIELD in (VALUE, ...)  ·  FIELD contains "text"
    value       a number, "text" or 'text', true, false
    joined by   and, or, not, brackets; `and` binds closer than `or`, `not` closest

A field is a name of side data, or key, caption, of (image or text). A condition on a field that a record does not have,
or that has a value of another kind there, is false for it. `contains` looks for a part of a text, whatever its case.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from equipoise.io.lines import one_line
from equipoise.settings.nearby import nearest
from equipoise.types import UserError

LONGEST, DEEPEST = 2000, 50
WORD = re.compile(
    r"""\s*(?:(?P<number>[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?(?![\w.]))|(?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')"""
    r"""|(?P<sign><=|>=|!=|==|=|<|>)|(?P<mark>[(),])|(?P<name>[^\W\d][\w.\-]*))"""
)
COMPARE = ("=", "!=", "<", "<=", ">", ">=")
JOINING = ("and", "or", "not", "in", "contains", "true", "false")
Value = float | str | bool


@dataclass(frozen=True)
class Condition:
    """A field beside a value; `sign` is one of COMPARE, "in" or "contains"."""

    field: str
    sign: str
    values: tuple[Value, ...]


@dataclass(frozen=True)
class Joined:
    """All (`and`) or any (`or`) of some filters."""

    by: str
    parts: tuple[Filter, ...]


@dataclass(frozen=True)
class Not:
    part: Filter


Filter = Condition | Joined | Not


def parse(where: str) -> Filter:
    """The tree of a filter; raises UserError with the place of what is not understood."""
    if len(where) > LONGEST:
        raise UserError(f"the filter has {len(where):,} characters; at most {LONGEST:,} are read")
    return _Reader(where).whole()


def kind_of(value: Value) -> str:
    """What a value is: number, text or bool."""
    if isinstance(value, bool):
        return "bool"
    return "text" if isinstance(value, str) else "number"


def require_fields(tree: Filter, fields: Mapping[str, tuple[str, ...]]) -> None:
    """Raise UserError where a filter names a field that no record has, or no record with a value of that kind."""
    if isinstance(tree, Condition):
        _require(tree, fields)
    else:
        for part in tree.parts if isinstance(tree, Joined) else (tree.part,):
            require_fields(part, fields)


def _require(condition: Condition, fields: Mapping[str, tuple[str, ...]]) -> None:
    name = condition.field
    if name not in fields:
        near = nearest(name, fields)
        hint = f"did you mean {near}?" if near else f"known here: {', '.join(sorted(fields)[:20])}"
        raise UserError(f'the filter names "{name}", which no record of this index has; {hint}')
    for value in condition.values:
        if kind_of(value) not in fields[name]:
            raise UserError(
                f'the filter compares "{name}" with {_shown(value)}, a value of the kind {kind_of(value)}, but it '
                f"holds values of the kind {' and '.join(fields[name])}; write such a value"
            )


def _shown(value: Value) -> str:
    return f'"{one_line(value)[:40]}"' if isinstance(value, str) else str(value).lower()


class _Reader:
    """Words of a filter, read from left to right."""

    def __init__(self, where: str):
        self.where, self.at, self.depth = where, 0, 0

    def whole(self) -> Filter:
        tree = self._any()
        if self._peek()[1]:
            raise self._wrong("and, or, or the end")
        return tree

    def _peek(self) -> tuple[str, str, int]:
        """The next word's kind, the word, and where it ends; nothing at the end."""
        rest = self.where[self.at :].lstrip()
        if not rest:
            return "", "", self.at
        match = WORD.match(self.where, self.at)
        if match is None or match.lastgroup is None:
            raise self._wrong("a field, a value or a sign")
        return match.lastgroup, match[match.lastgroup], match.end()

    def _take(self) -> tuple[str, str]:
        kind, word, self.at = self._peek()
        return kind, word

    def _takes(self, word: str) -> bool:
        kind, found, end = self._peek()
        if kind in ("name", "mark") and found.lower() == word:
            self.at = end
            return True
        return False

    def _any(self) -> Filter:
        parts = [self._all()]
        while self._takes("or"):
            parts.append(self._all())
        return parts[0] if len(parts) == 1 else Joined("or", tuple(parts))

    def _all(self) -> Filter:
        parts = [self._one()]
        while self._takes("and"):
            parts.append(self._one())
        return parts[0] if len(parts) == 1 else Joined("and", tuple(parts))

    def _one(self) -> Filter:
        self.depth += 1
        if self.depth > DEEPEST:
            raise UserError(f"the filter has brackets and nots more than {DEEPEST} deep; write it flatter")
        try:
            if self._takes("not"):
                return Not(self._one())
            if self._takes("("):
                inside = self._any()
                if not self._takes(")"):
                    raise self._wrong("a closing bracket")
                return inside
            return self._condition()
        finally:
            self.depth -= 1

    def _condition(self) -> Condition:
        kind, name, end = self._peek()
        if kind != "name" or name.lower() in JOINING:
            raise self._wrong("the name of a field")
        self.at = end
        if self._takes("in"):
            return Condition(name, "in", self._list())
        if self._takes("contains"):
            value = self._value()
            if not isinstance(value, str):
                raise UserError(f'the filter asks whether "{name}" contains {value}; write a text in quotes')
            return Condition(name, "contains", (value,))
        kind, sign, end = self._peek()
        if kind != "sign":
            raise self._wrong("one of = != < <= > >= in contains")
        self.at = end
        return self._compared(name, "=" if sign == "==" else sign, self._value())

    def _compared(self, name: str, sign: str, value: Value) -> Condition:
        if isinstance(value, bool) and sign not in ("=", "!="):
            raise UserError(
                f'the filter asks whether "{name}" is {sign} {str(value).lower()}; only = and != make sense'
            )
        return Condition(name, sign, (value,))

    def _list(self) -> tuple[Value, ...]:
        if not self._takes("("):
            raise self._wrong("an opening bracket")
        values = [self._value()]
        while self._takes(","):
            values.append(self._value())
        if not self._takes(")"):
            raise self._wrong("a comma or a closing bracket")
        return tuple(values)

    def _value(self) -> Value:
        kind, word, end = self._peek()
        if kind == "name" and word.lower() in ("true", "false"):
            self.at = end
            return word.lower() == "true"
        if kind not in ("number", "text"):
            raise self._wrong('a number, a "text", true or false')
        self.at = end
        return _text(word) if kind == "text" else float(word)

    def _wrong(self, expected: str) -> UserError:
        rest = one_line(self.where[self.at :].strip())[:30]
        found = f'"{rest}"' if rest else "its end"
        return UserError(f"the filter is not understood at {found}; expected there is {expected}")


def _text(quoted: str) -> str:
    return re.sub(r"\\(.)", r"\1", quoted[1:-1], flags=re.DOTALL)
