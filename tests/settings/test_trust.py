"""Which layers may name code to import, shell commands and folders to write to."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from equipoise.settings.choice import choice, choices
from equipoise.settings.layers import Layer, LayeredTable, parse
from equipoise.settings.recipe import read_recipe, read_table
from equipoise.settings.resolve import resolve
from equipoise.settings.trust import Trust, current_trust, output_folder, trusting
from equipoise.types import UserError


@dataclass(frozen=True)
class Files:
    train: str | tuple[str, ...] = ""
    cache: str = output_folder()


@dataclass(frozen=True)
class Whole:
    data: Files = choice({"files": Files}, "files")
    further: dict[str, Files] = choices({"files": Files}, "files")


@dataclass(frozen=True)
class Mine(Files):
    pass


CODE = f"{__name__}:Mine"


def layer(text: str, trusted: bool) -> Layer:
    return parse(text, "mine.toml" if trusted else "config.toml", trusted)


def resolved(*layers: Layer) -> tuple[Any, dict[str, Any]]:
    return resolve(Whole, LayeredTable(layers))


@pytest.mark.parametrize("table", ["data", "further.one"])
def test_stored_code_needs_trust(table: str) -> None:
    stored = layer(f'[{table}]\nname = "{CODE}"', trusted=False)
    package = __name__.partition(".")[0]
    with trusting() as trust:
        trust.code.clear()
        with pytest.raises(UserError, match=rf'^config\.toml:2: "{table}" is the Python code.*--trust {package}'):
            resolved(stored)
        with trusting((package,)):
            resolved(stored)
        with trusting("other"), pytest.raises(UserError, match="--trust"):
            resolved(stored)
        with pytest.raises(UserError, match="--trust"):
            resolved(layer(f'{table}.name = "files"', trusted=True), stored)  # the layer that wrote the name counts


def test_what_the_user_named_stored_settings_may_repeat() -> None:
    text = f'data.name = "{CODE}"\ndata.cache = "here"'
    with trusting():
        assert resolved(layer(text, trusted=True))[0].data == Mine(cache="here")
        assert resolved(layer(text, trusted=False))[0].data == Mine(cache="here")
        resolved(layer(text, trusted=False), layer(f'data.name = "{CODE}"', trusted=True))


def test_a_package_is_not_the_beginning_of_a_word() -> None:
    trust = Trust(("my_lab", "other.part"))
    assert trust.may_import("my_lab:A")
    assert trust.may_import("my_lab.deep.down:A")
    assert trust.may_import("other.part:A")
    for name in ("my_lab2:A", "my_labor.x:A", "other:A", "other.parts:A", "x.my_lab:A"):
        assert not trust.may_import(name)


def test_shell_commands_are_remembered_from_trusted_layers_alone() -> None:
    text = 'data.train = ["pipe:one", "a.tar"]\nfurther.x.train = "pipe:two"'
    with trusting(pipes=True) as trust:
        resolved(layer(text, trusted=False))
        assert not trust.commands
        resolved(layer(text, trusted=True))
        assert trust.commands == {"pipe:one", "pipe:two"}
    with trusting() as trust:
        resolved(layer(text, trusted=True))
        assert not trust.commands
    with trusting(commands=["pipe:one"]) as trust:
        assert trust.commands == {"pipe:one"}


def test_a_folder_to_write_to_is_the_users() -> None:
    stored = layer('data.cache = "stored"', trusted=False)
    with trusting():
        whole, table = resolved(stored)
        assert whole.data.cache == ""
        assert table["data"]["cache"] == "stored"  # the table says what was written
        assert resolved(stored, layer('data.cache = "mine"', trusted=True))[0].data.cache == "mine"
        assert resolved(layer('data.cache = "mine"', trusted=True), stored)[0].data.cache == ""


def test_trust_ends_with_its_block_and_stays_in_its_thread() -> None:
    found: list[Trust] = []
    with trusting(("mine",)) as inner, trusting(("further",), pipes=True) as innermost:
        assert innermost.packages == (*inner.packages, "further")
        thread = threading.Thread(target=lambda: found.append(current_trust()))
        thread.start()
        thread.join()
    assert "mine" not in current_trust().packages
    assert "mine" not in found[0].packages


def test_where_layers_come_from(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text('extends = "base"\n')
    (tmp_path / "base.toml").write_text("")
    (tmp_path / "config.toml").write_text('extends = "base"\n')
    assert [one.trusted for one in read_recipe(tmp_path / "mine.toml", ["a=1"]).layers] == [True, True, True]
    assert [one.trusted for one in read_recipe(tmp_path / "config.toml", ["a=1"]).layers] == [False, False, True]
    assert [one.trusted for one in read_table(tmp_path / "mine.toml", ["a=1"]).layers] == [False, True]
    assert not Layer("a program", {}, {}).trusted
