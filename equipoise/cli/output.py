"""--json, --quiet and --device: what commands print, and where models run. Each is worded once, for every command."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, redirect_stdout
from typing import Any

from equipoise.types import UserError

NO_NUMBERS = ("cite", "completion", "preview", "serve")  # commands that print no numbers
NO_MODEL = (
    *("cite", "completion", "preview", "recipes", "show", "import", "export", "push", "pull"),
    *("write", "check", "prepare", "temperature", "compare", "list", "report", "delete"),
)


def add_output_options(parser: argparse.ArgumentParser, command: str) -> None:
    """Add --device to a command that runs a model; --json and --quiet to one that prints numbers."""
    if command not in NO_MODEL:
        parser.add_argument("--device", default="auto", help="cpu, cuda, cuda:1 (default: a GPU where there is one)")
    if command not in NO_NUMBERS:
        parser.add_argument(
            "--json", action="store_true", help="print one JSON object; what is printed for people goes to stderr"
        )
        parser.add_argument("--quiet", action="store_true", help="show no progress; with --json, print nothing else")


@contextmanager
def printed_as_asked(options: argparse.Namespace) -> Iterator[None]:
    """Carry out a command within: its numbers as one JSON object, its progress and its device as the words say."""
    as_json, silent = getattr(options, "json", False), getattr(options, "quiet", False)
    device = getattr(options, "device", "auto")
    if not (as_json or silent or device != "auto"):
        yield
        return
    with ExitStack() as stack:
        from equipoise.io.numbers import taking_numbers
        from equipoise.io.progress import quiet

        stack.enter_context(quiet(silent))
        if device != "auto":
            from equipoise.training.device import choosing_device

            stack.enter_context(choosing_device(device))
        if not as_json:
            yield
            return
        place: Any = stack.enter_context(open(os.devnull, "w", encoding="utf-8")) if silent else sys.stderr
        ended: UserError | None = None
        with taking_numbers() as numbers, redirect_stdout(place):
            try:
                yield
            except UserError as error:
                if error.status == UserError.status:
                    raise
                ended = error  # no mistake, but an outcome with a status of its own, after all of the work
    if numbers:
        from equipoise.io.numbers import as_json as written

        print(written({"command": options.command, **numbers}))
    if ended:
        raise ended
