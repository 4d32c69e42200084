"""The command line: the words of each command."""

from equipoise.cli.main import main

__all__ = ["main"]
