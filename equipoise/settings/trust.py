"""What settings may cause beyond being read: importing Python, running a shell command, writing to a folder.

A layer of settings is trusted where the user named it: a recipe, `--set`. Settings that were stored with a model or a
run are not trusted, for a model folder may come from anybody. They may do these three things only where

- the package of the Python code is among those the user trusts: `--trust my_package`, `eq.load(..., trust=...)`, or
- a trusted layer of the same call named the very same code, command or folder.

    with trusting(packages=("my_package",)):
        load_stored("runs/mine/config.toml")

Shell commands (`pipe:`) need a word of their own even in trusted layers: `--allow-pipe`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

PIPE = "pipe:"
WRITES = "writes"  # key of a field's metadata


@dataclass(frozen=True)
class Trust:
    """What the user of one call trusts."""

    packages: tuple[str, ...] = ()
    pipes: bool = False  # whether trusted layers may name shell commands
    code: set[str] = field(default_factory=set)  # full names that the user named so far
    commands: set[str] = field(default_factory=set)  # likewise, with their `pipe:`
    folders: set[str] = field(default_factory=set)

    def may_import(self, full_name: str) -> bool:
        """Whether stored settings may import `package.module:attribute`."""
        module = full_name.partition(":")[0]
        return full_name in self.code or any(f"{module}.".startswith(f"{package}.") for package in self.packages)

    def add_commands(self, value: Any) -> None:
        """Remember the shell commands among the texts of a trusted setting, where they are allowed at all."""
        texts = value if isinstance(value, tuple | list) else (value,)
        if self.pipes:
            self.commands.update(text for text in texts if isinstance(text, str) and text.startswith(PIPE))


_PROCESS = Trust()  # of Python programs, which name what they name themselves
_TRUST: ContextVar[Trust] = ContextVar("trust", default=_PROCESS)


def current_trust() -> Trust:
    """The trust of the current call."""
    return _TRUST.get()


@contextmanager
def trusting(packages: Iterable[str] = (), commands: Iterable[str] = (), pipes: bool = False) -> Iterator[Trust]:
    """Trust `packages` and the shell `commands` in addition to what is trusted already; with `pipes`, also the
    commands that recipes and `--set` name."""
    outer = current_trust()
    added = (packages,) if isinstance(packages, str) else tuple(packages)
    known = outer.code.copy(), outer.commands | set(commands), outer.folders.copy()
    trust = Trust((*outer.packages, *added), outer.pipes or pipes, *known)
    token = _TRUST.set(trust)
    try:
        yield trust
    finally:
        _TRUST.reset(token)


def output_folder(default: str = "") -> Any:
    """A dataclass field that names a folder to write to: one that only stored settings name is not used."""
    return field(default=default, metadata={WRITES: True})
