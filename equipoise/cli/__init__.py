"""The command line: a table of commands, and the words of each."""

from equipoise.cli.commands import COMMANDS
from equipoise.cli.main import main

__all__ = ["COMMANDS", "main"]
