"""The words that say whom a command trusts; what they mean is in `settings/trust.py`."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any

from equipoise.settings.trust import PIPE, Trust, trusting

NO_SETTINGS = (
    "recipes",
    "import",
    "push",
    "pull",
    "completion",
    "list",
    "run",
    "report",
)  # commands that read no settings
NO_DATA = (
    "show",
    "cite",
    "export",
    "cost",
    "temperature",
    "compare",
    "delete",
    "search",
)  # commands that read settings and no data


def add_trust_options(parser: argparse.ArgumentParser, command: str) -> None:
    """Add --trust to a command that reads settings, and --allow-pipe to one that reads data."""
    if command not in NO_SETTINGS:
        parser.add_argument(
            "--trust", action="append", default=[], metavar="PACKAGE", help="Python that stored settings may import"
        )
    if command not in (*NO_SETTINGS, *NO_DATA):
        parser.add_argument("--allow-pipe", action="store_true", help="run the shell commands (pipe:) you name as data")


def trusted_by(options: argparse.Namespace) -> AbstractContextManager[Trust]:
    """Trust what the words of a command say."""
    pipes = getattr(options, "allow_pipe", False)
    commands = [word for word in _words(vars(options)) if word.startswith(PIPE)] if pipes else []
    return trusting(getattr(options, "trust", ()), commands, pipes)


def _words(options: dict[str, Any]) -> Iterator[str]:
    """The texts of the command line, as the parser has cut them."""
    for value in options.values():
        yield from (word for word in (value if isinstance(value, list) else [value]) if isinstance(word, str))
