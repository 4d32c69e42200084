"""Reading recipes: a TOML file, the recipe it extends, and `--set` on top.

    extends = "demo"          the one parent: beside this file first, then among the built-in recipes
    [training]
    steps = 500               everything else overrides the parent, key by key

A recipe is requested by name (built in) or by path. `layers.py` holds what is read, `resolve.py` turns it into objects.
"""

from __future__ import annotations

import difflib
import os
import stat
from collections.abc import Sequence
from importlib.resources import files
from itertools import takewhile
from pathlib import Path
from typing import Any

from equipoise.settings.layers import Layer, LayeredTable, parse, shown
from equipoise.settings.nearby import meant_path
from equipoise.settings.overrides import command_line
from equipoise.types import UserError

BUILT_IN = Path(str(files("equipoise"))) / "recipes"
PREFIX = "recipe:"  # of a name that means the built-in recipe, whatever lies in this folder
METHOD_FOLDER = "finetune"  # the folder of fine-tuning methods, which are no recipes by themselves
PathLike = str | os.PathLike[str]
NAMED = 5  # recipes named in an error
STORED = "config.toml"  # settings as models and runs store them, which are not trusted by whatever way they are read
MOST_ANCESTORS = 32
MOST_BYTES = 1 << 20  # of a recipe
PIPES_OF_THE_SHELL = ("dev", "proc")  # where `/dev/stdin` and `<(command)` are


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
    """The file of a built-in recipe, or the path as given; raises UserError for a name that is both."""
    name, path = os.fspath(name_or_path), Path(name_or_path)
    known = built_in_files()
    if name.startswith(PREFIX):
        name = name.removeprefix(PREFIX)
        if name in known:
            return known[name]
    elif path.suffix == ".toml" or path.name != name:
        return path
    elif os.path.isfile(path):
        if name in known:
            raise two_meanings(name, "file")
        return path
    elif name in known:
        return known[name]
    nothing = "" if path.exists() else ", and no such file or folder"
    raise UserError(f'there is no recipe "{name}"{nothing}; give a path, or one of: {_nearest_first(name)}')


def two_meanings(name: str, kind: str) -> UserError:
    """The error for a bare name that is a built-in recipe and also a file, or a folder, in the current folder."""
    spellings = f"{PREFIX}{name} for the recipe, or ./{name} for the {kind}"
    return UserError(f"{name} is a built-in recipe and also a {kind} here; write {spellings}")


def builtin_recipes() -> dict[str, str]:
    """The recipes that come with the package, by name, with the first line of their header."""
    return {name: header(name).partition("\n")[0] for name in built_in_files()}


def header(name_or_path: PathLike) -> str:
    """Return the comment a recipe opens with: command, hardware, time, expected score."""
    lines = _text(find_recipe(name_or_path)).lstrip().splitlines()
    comment = takewhile(lambda line: line.startswith("#"), lines)
    return "\n".join(line.removeprefix("#").removeprefix(" ").rstrip() for line in comment)


def _text(file: Path) -> str:
    try:
        if stat.S_ISFIFO(os.stat(file).st_mode) and os.path.abspath(file).split(os.sep)[1] not in PIPES_OF_THE_SHELL:
            raise UserError(f"{file}: this is a pipe, which may never end; give the path of a .toml file")
        with file.open("rb") as stream:
            content = stream.read(MOST_BYTES + 1)
        if len(content) > MOST_BYTES:
            raise UserError(f"{file}: this is larger than {MOST_BYTES:,} bytes, which no recipe is; check the path")
        return content.decode("utf-8-sig")
    except FileNotFoundError as error:
        raise UserError(f"{file}: there is no such file{meant_path(file)}; check the path") from error
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


def built_in_files() -> dict[str, Path]:
    """Built-in recipes by name; their folders sort them by paper and are no part of the name."""
    files = [file for file in BUILT_IN.rglob("*.toml") if file.parent.name != METHOD_FOLDER]
    return {file.stem: file for file in sorted(files, key=lambda file: file.stem)}


def _nearest_first(name: str) -> str:
    """List a few built-in recipes, the nearest names first."""
    known = sorted(built_in_files(), key=lambda other: -difflib.SequenceMatcher(None, name, other).ratio())
    more = " (`equipoise recipes` lists all)" if len(known) > NAMED else ""
    return (", ".join(known[:NAMED]) or "none") + more
