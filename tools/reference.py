"""Writes docs/reference/: every key of a recipe and every public name, from the code. `python tools/reference.py`

A key's line is its field: the type, the default and the remark behind it in the source. A name's lines are its
signature and docstring. tests/test_reference.py tells when the pages are stale.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
import sys
import textwrap
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import equipoise
from equipoise.config import Run
from equipoise.settings.choice import CHOICES, DEFAULT, MANY
from equipoise.settings.toml import dump

PAGES = Path(__file__).resolve().parent.parent / "docs" / "reference"
HEAD = "<!-- written by tools/reference.py from the code -->\n"
LONGEST = 60  # characters of a default that are shown
DEEPEST = 3  # levels of headings: a target of an objective has a section, its guide is told there by its choices
WORDS = {
    "str": "text", "int": "whole number", "float": "number", "bool": "true or false", "tuple": "list", "list": "list",
    "Mapping": "table", "dict": "table", "Patterns": "text or list", "Path": "path",
}  # fmt: skip
QUOTED = "[\"']([^\"']+)[\"']"
ANNOTATION = re.compile(r"(: |-> )(['\"])(.*?)\2")  # quoted by `inspect`, unlike a default, whose quotes are its own
FIELD = re.compile(r"^    (\w+): ")
FOR_TOOLS = re.compile("(?:fmt|type|noqa):")


def recipe_keys() -> str:
    """A section for each table of a recipe; of a part that is chosen by name, one below it for each choice."""
    lines = [
        HEAD + "# Keys of a recipe",
        "Every key that a recipe may have, with its default. `equipoise show RECIPE` prints a recipe with all of them "
        "filled in; [recipes](../recipes.md) explains them by topic. A part that is chosen by `name` has the keys of "
        "what was chosen; presets (`vit-b32`, ...) bring values of their own for them. Without a default: nothing, or "
        "a table with a section of its own.",
        "## The recipe itself",
        *_table(Run, ""),
    ]
    for field in dataclasses.fields(Run):
        if _options(field) is not None or dataclasses.is_dataclass(_made(field)):
            lines += _section(field.name, field, level=2)
    return "\n\n".join(lines) + "\n"


def python_names() -> str:
    """A section for each public name."""
    lines = [
        HEAD + "# Public names in Python",
        "What `import equipoise as eq` offers, as `eq.NAME`. Anything else may change between versions.",
    ]
    for name in sorted(equipoise.__all__, key=str.lower):
        lines += _name(name, getattr(equipoise, name))
    return "\n\n".join(lines) + "\n"


def _section(path: str, field: dataclasses.Field[Any], level: int, of: str = "") -> list[str]:
    """The table at `path`, and those in it; `of` says whose it is where a part of that name belongs to a choice."""
    options = _options(field)
    lines = [f"{'#' * level} [{path}]{of}"]
    if options is None:
        kind = type(_made(field))
        return [*lines, *_table(kind, path), *_below(kind, path, level, of)]
    default = field.metadata[DEFAULT]
    several = " Any number of them, each in a table of its own." if field.metadata.get(MANY) else ""
    lines.append(f"`name` is `{default}` unless another is chosen: {_listed(options)}.{several}")
    inner: list[str] = []
    for kind, names in _by_class(options).items():
        if table := _table(kind, path):
            lines += [*_chosen(path, names, level + 1), *table]
        inner += _below(kind, path, level, f" of {_listed(names[:1])}")
    return [*lines, *inner]


def _below(kind: type, path: str, level: int, of: str) -> Iterator[str]:
    for field in dataclasses.fields(kind):
        if level < DEEPEST and (_options(field) is not None or dataclasses.is_dataclass(_made(field))):
            yield from _section(f"{path}.{field.name}", field, level + 1, of)


def _table(kind: type, path: str) -> list[str]:
    remarks = _remarks(kind)
    rows: list[list[str]] = []
    for field in dataclasses.fields(kind):
        inner = _made(field)
        if not field.init or (not path and (_options(field) is not None or dataclasses.is_dataclass(inner))):
            continue
        key = f"{path}.{field.name}".lstrip(".")
        if _options(field) is not None:
            kind_of, default = "a choice", f'name = "{field.metadata[DEFAULT]}"'
        elif dataclasses.is_dataclass(inner):
            kind_of, default = "a table", ""
        else:
            kind_of, default = _type(kind, field), _shown(inner)
        shown = f"`{default}`" if default else ""
        rows.append([f"`{key}`", kind_of, shown, _cell(remarks.get(field.name, ""))])
    columns = 4 if any(row[3] for row in rows) else 3
    head = [["key", "type", "default", "what it is"], ["---"] * 4]
    return ["\n".join("| " + " | ".join(row[:columns]) + " |" for row in [*head, *rows])] if rows else []


def _options(field: dataclasses.Field[Any]) -> dict[str, Any] | None:
    return field.metadata.get(CHOICES)


def _by_class(options: dict[str, Any]) -> dict[type, list[str]]:
    found: dict[type, list[str]] = {}
    for name, option in options.items():
        found.setdefault(option if isinstance(option, type) else type(option), []).append(name)
    return {kind: names for kind, names in found.items() if dataclasses.is_dataclass(kind)}


def _made(field: dataclasses.Field[Any]) -> Any:
    if field.default is not dataclasses.MISSING:
        return field.default
    return None if field.default_factory is dataclasses.MISSING else field.default_factory()


def _shown(value: Any) -> str:
    if value is None:
        return ""
    text = dump({"key": list(value) if isinstance(value, tuple) else value}).strip().removeprefix("key = ")
    text = " ".join(text.split())
    return text if len(text) <= LONGEST else f"{text[:LONGEST].rsplit(', ', 1)[0]}, ..."


def _type(kind: type, field: dataclasses.Field[Any]) -> str:
    text = field.type if isinstance(field.type, str) else getattr(field.type, "__name__", str(field.type))
    if text.startswith("Literal["):
        return f"one of {_listed(re.findall(QUOTED, text))}"
    named = getattr(inspect.getmodule(kind), text, None)
    if get_origin(named) is Literal:
        return f"one of {_listed(get_args(named))}"
    alternatives = (one.split("[")[0] for one in text.split(" | ") if one != "None")
    return " or ".join(dict.fromkeys(WORDS.get(one, "value") for one in alternatives))


@cache
def _remarks(kind: type) -> dict[str, str]:
    """What stands behind each field in the source of a dataclass and those that it extends."""
    found: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        if dataclasses.is_dataclass(base):
            lines, start = inspect.getsourcelines(base)
            path = inspect.getsourcefile(base)
            assert path
            found |= _behind(Path(path), start, start + len(lines), lines)
    return found


def _behind(path: Path, first: int, last: int, lines: list[str]) -> dict[str, str]:
    with path.open("rb") as file:
        tokens = list(tokenize.tokenize(file.readline))
    comments = {token.start[0]: token.string for token in tokens if token.type == tokenize.COMMENT}
    own = textwrap.dedent("".join(lines)).splitlines()  # a class within another is set in further
    named = ((FIELD.match(line), comments.get(number)) for number, line in zip(range(first, last), own, strict=True))
    return {match[1]: _remark(text) for match, text in named if match and text}


def _remark(comment: str) -> str:
    """A comment without what is said to tools in it."""
    parts = (part.strip() for part in comment.split("#"))
    return "; ".join(part for part in parts if part and not FOR_TOOLS.match(part))


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _chosen(path: str, names: list[str], level: int) -> Iterator[str]:
    """The heading of a choice, as a recipe has it: something to find and to link to."""
    yield "#" * level + f' `{path}.name = "{names[0]}"`'
    if names[1:]:
        yield f"Likewise {_listed(names[1:])}."


def _listed(names: Any) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _name(name: str, value: Any) -> list[str]:
    if inspect.ismodule(value):
        members = [(one, getattr(value, one)) for one in getattr(value, "__all__", ())]
        told = [f"`{one}{_signature(is_)}`\n: {_paragraph(_told(is_))}" for one, is_ in members if inspect.isclass(is_)]
        return [f"## eq.{name}", _prose(value), *told]
    lines = [f"## eq.{name}", f"```text\n{name}{_signature(value)}\n```", _prose(value)]
    if inspect.isclass(value):
        for method, function in inspect.getmembers(value, inspect.isfunction):
            if method[0] != "_" and function.__module__.startswith("equipoise.") and _first(function):
                lines.append(f"`.{method}{_signature(function)}`\n: {_first(function)}")
    return [line for line in lines if line]


def _signature(value: Any) -> str:
    try:
        text = str(inspect.signature(value))
    except (TypeError, ValueError):
        return ""
    text = re.sub(r"<[\w. ]*?(\w+) object at 0x\w+>|<factory>", lambda match: match[1] or "...", text)
    text = ANNOTATION.sub(r"\1\3", text)
    return text.removesuffix(" -> None") if inspect.isclass(value) else text


def _prose(value: Any) -> str:
    """The docstring; what is set in by four spaces there is a formula or an example."""
    return _told(value) if inspect.isclass(value) else inspect.getdoc(value) or ""


def _told(kind: type) -> str:
    """A class's own docstring, or what its file begins with: not one that it inherits, or that dataclass made up."""
    own = kind.__doc__ or ""
    return inspect.cleandoc(own) if own and not own.startswith(f"{kind.__name__}(") else _first(inspect.getmodule(kind))


def _first(value: Any) -> str:
    return _paragraph(inspect.getdoc(value) or "")


def _paragraph(doc: str) -> str:
    return " ".join(doc.split("\n\n", maxsplit=1)[0].split())


FILES = {"recipe-keys.md": recipe_keys, "python.md": python_names}


def stale() -> list[str]:
    """Names of the pages that are not as the code has them now."""
    return [name for name, make in FILES.items() if not (PAGES / name).is_file() or _text(name) != make()]


def _text(name: str) -> str:
    return (PAGES / name).read_text(encoding="utf-8")


def main() -> int:
    PAGES.mkdir(parents=True, exist_ok=True)
    for name, make in FILES.items():
        (PAGES / name).write_text(make(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
