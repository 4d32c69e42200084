"""The command line: a table of commands, and the words of each.

`main` comes before every import that takes time, so that Ctrl-C is answered in a sentence from the start.
"""

from __future__ import annotations

from equipoise.cli.commands import COMMANDS

TYPE_CHECKING = False  # as typing has it, which takes time to import
if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["COMMANDS", "main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Carry out a command line, by default this process's own; returns the exit status."""
    if arguments is not None:
        from equipoise.cli.run import run

        return run(arguments)
    try:
        from equipoise.cli.interrupts import stoppable

        return stoppable(_own_command_line)
    except KeyboardInterrupt:  # before there was another answer to it
        return 130


def _own_command_line() -> int:
    import sys

    from equipoise.cli.run import run
    from equipoise.cli.streams import prepare_streams

    prepare_streams()
    return run(sys.argv[1:])
