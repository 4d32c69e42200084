"""Reading recipes: a TOML file, the recipe it extends, and `--set` on top.

    extends = "demo"          the one parent: beside this file first, then among the built-in recipes
    [training]
    steps = 500               everything else overrides the parent, key by key

A recipe is asked for by name (built in) or by path. See `layers.py` for what is read, `resolve.py` for what becomes of
it.
"""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Iterable, Sequence
from importlib.resources import files
from itertools import takewhile
from pathlib import Path
from typing import Any

from equipoise.settings.layers import DEEPEST, TOO_DEEP, Layer, LayeredTable, parse, require_shallow, shown
from equipoise.settings.toml import Key, key_lines
from equipoise.types import UserError

BUILT_IN = Path(str(files("equipoise"))) / "recipes"
METHOD_FOLDER = "finetune"  # the folder of fine-tuning methods, which are no recipes by themselves
PathLike = str | os.PathLike[str]
NAMED = 5  # recipes named in an error
STORED = "config.toml"  # settings as models and runs store them, which are not trusted by whatever way they are read
MOST_ANCESTORS = 32
MOST_BYTES = 1 << 20  # of a recipe


def read_recipe(name_or_path: PathLike, overrides: Sequence[str] = ()) -> LayeredTable:
    """A built-in recipe by name or a recipe file by path, over its ancestors and under the `--set` overrides."""
    layers = recipe_layers(name_or_path)
    return LayeredTable((*layers, command_line(overrides, source=layers[-1].source)))


def recipe_layers(name_or_path: PathLike) -> tuple[Layer, ...]:
    """A recipe and its ancestors, the oldest first."""
    file: Path | None = find_recipe(name_or_path)
    trusted, heirs, layers = True, list[Path](), list[Layer]()
    while file:
        trusted = trusted and not _is_stored(file)  # nor is what stored settings extend
        layer = parse(_text(file), str(file), trusted)
        heirs.append(file)
        file = _parent_of(layer, heirs)
        layers.append(layer.narrowed({name: value for name, value in layer.values.items() if name != "extends"}))
    return tuple(reversed(layers))


def read_table(path: PathLike, overrides: Sequence[str] = ()) -> LayeredTable:
    """A stored, resolved table such as a model folder's `config.toml`: one file, no parent."""
    stored = parse(_text(Path(path)), os.fspath(path))
    return LayeredTable((stored, command_line(overrides, source=stored.source)))


def find_recipe(name_or_path: PathLike) -> Path:
    """The file of a built-in recipe, or the path as given."""
    name, path = os.fspath(name_or_path), Path(name_or_path)
    if path.suffix == ".toml" or path.name != name:
        return path
    if name in (known := built_in_files()):
        return known[name]
    if os.path.isfile(path):
        return path
    raise UserError(f'there is no recipe "{name}"; give the path of a .toml file, or one of: {_nearest_first(name)}')


def builtin_recipes() -> dict[str, str]:
    """The recipes that come with the package, by name, with the first line of their header."""
    return {name: header(name).partition("\n")[0] for name in built_in_files()}


def header(name_or_path: PathLike) -> str:
    """The comment a recipe opens with: command, hardware, time, expected score."""
    lines = _text(find_recipe(name_or_path)).lstrip().splitlines()
    comment = takewhile(lambda line: line.startswith("#"), lines)
    return "\n".join(line.removeprefix("#").removeprefix(" ").rstrip() for line in comment)


def _text(file: Path) -> str:
    try:
        with file.open("rb") as stream:
            content = stream.read(MOST_BYTES + 1)
        if len(content) > MOST_BYTES:
            raise UserError(f"{file}: this is larger than {MOST_BYTES:,} bytes, which no recipe is; check the path")
        return content.decode("utf-8-sig")
    except FileNotFoundError as error:
        raise UserError(f"{file}: there is no such file; check the path") from error
    except IsADirectoryError as error:
        raise UserError(f"{file}: this is a folder; give the path of a .toml file") from error
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise UserError(f"{file}:{line}: this is not UTF-8 text; save the file as UTF-8") from error
    except OSError as error:
        raise UserError(f"{file}: this file cannot be read: {error.strerror}") from error


def _is_stored(file: Path) -> bool:
    return STORED in (file.name.casefold(), file.resolve().name.casefold())


def _parent_of(layer: Layer, heirs: Sequence[Path]) -> Path | None:
    """The recipe that the last of the heirs extends; None where it extends none."""
    if "extends" not in layer.values:
        return None
    try:
        parent = _parent(heirs[-1], layer.values["extends"])
        if parent.resolve() in [heir.resolve() for heir in heirs]:
            circle = " -> ".join(file.name for file in (*heirs, parent))
            raise UserError(f"recipes cannot extend each other in a circle: {circle}")
        if len(heirs) > MOST_ANCESTORS:
            raise UserError(f"this is the recipe number {len(heirs)} of a chain; {MOST_ANCESTORS} is the most")
    except UserError as error:
        raise UserError(f"{layer.places[('extends',)]}: {error}") from error
    return parent


def _parent(file: Path, name: Any) -> Path:
    """The recipe that `file` extends."""
    if not isinstance(name, str):
        raise UserError(f'"extends" must name one recipe, as text, found {shown(name)}')
    beside = [path for path in (file.parent / name, file.parent / f"{name}.toml") if os.path.isfile(path)]
    others = [path for path in beside if path.resolve() != file.resolve()]
    if others:
        return others[0]
    if name in (known := built_in_files()):  # after `others`, so that one's own demo.toml may extend the built-in demo
        return known[name]
    if beside:
        return beside[0]
    raise UserError(f'no recipe "{name}" beside this file or among the built-in ones: {_nearest_first(name)}')


def command_line(overrides: Iterable[str], source: str) -> Layer:
    """All `--set` texts as one layer: their order is free, except that the last of one key wins."""
    values: dict[str, Any] = {}
    places: dict[Key, str] = {}
    for text in overrides:
        _require_text(text)
        written, equals, value = text.partition("=")
        key = _parsed_key(written)
        if not equals or not key:
            raise UserError(f"--set {_line(text)}: this is not of the form key=value; write for example --set a.b=100")
        place = f"--set {_line(written)}"
        if len(key) > DEEPEST:
            raise UserError(f"{place[:60]}...: {TOO_DEEP}")
        places |= {key[:depth]: place for depth in range(1, len(key) + 1)}
        table = values
        for name in key[:-1]:
            table = table.setdefault(name, {})
            if not isinstance(table, dict):
                raise UserError(f'{place}: "{name}" was already set to {shown(table)}; leave out one of the two')
        table[key[-1]] = _parsed_value(value.strip(), place)
    return Layer(source, values, places, trusted=True)


def _require_text(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:  # bytes of the command line that are not UTF-8 arrive as surrogates
        raise UserError(f"--set {_line(text)}: this is not UTF-8 text; write it in UTF-8") from None


def _line(text: str) -> str:
    """Any text as part of one printable line."""
    text = text.strip()
    return text if text.isprintable() else text.encode("unicode_escape").decode()


def _parsed_key(text: str) -> Key:
    """A key as TOML reads it, dotted or quoted; empty where it is none."""
    try:
        tomllib.loads(f"{text} = 0")
    except (ValueError, RecursionError):
        return ()
    return max(key_lines(f"{text} = 0"), key=len, default=())


def _parsed_value(text: str, place: str) -> Any:
    """A TOML value, or a bare word as text."""
    try:
        parsed = tomllib.loads(f"value = {text}")
        require_shallow(parsed)
    except RecursionError:
        raise UserError(f"{place}: {TOO_DEEP}") from None
    except ValueError:
        return text
    return parsed["value"] if len(parsed) == 1 else text


def built_in_files() -> dict[str, Path]:
    """Built-in recipes by name; their folders sort them by paper and are no part of the name."""
    files = [file for file in BUILT_IN.rglob("*.toml") if file.parent.name != METHOD_FOLDER]
    return {file.stem: file for file in sorted(files, key=lambda file: file.stem)}


def _nearest_first(name: str) -> str:
    """A few of the built-in recipes."""
    known = sorted(built_in_files(), key=lambda other: -difflib.SequenceMatcher(None, name, other).ratio())
    more = " (`equipoise recipes` lists all)" if len(known) > NAMED else ""
    return (", ".join(known[:NAMED]) or "none") + more
