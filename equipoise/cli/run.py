"""The command line: parse, run, and turn a user's mistake into one sentence on standard error."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
import warnings
from collections.abc import Sequence
from contextlib import suppress

from equipoise.cli.output import printed_as_asked
from equipoise.cli.parser import MISTAKE, build_parser
from equipoise.cli.trust import trusted_by
from equipoise.cli.verify import verified_by
from equipoise.io.lines import one_line
from equipoise.types import Notice, UserError

STOPPED = 130  # the exit status after Ctrl-C, as shells have it


def run(arguments: Sequence[str]) -> int:
    """Carry out a command line; returns the exit status."""
    if strange := next((word for word in arguments if not _is_text(word)), ""):
        return _fail(f"{strange!r} is not UTF-8 text; write it in UTF-8, or rename the file", MISTAKE)
    options = build_parser().parse_args(arguments, argparse.Namespace(command=shlex.join(["equipoise", *arguments])))
    with warnings.catch_warnings():
        warnings.showwarning = _WarningsOnce()  # type: ignore[assignment]
        return _run(options)


def _run(options: argparse.Namespace) -> int:
    try:
        with trusted_by(options), verified_by(options), printed_as_asked(options):
            code: int = options.run(options) or 0
        if sys.stdout is not None:
            sys.stdout.flush()  # so that a full disk or a closed pipe shows here and not at exit
        return code
    except UserError as error:
        return _fail(str(error), error.status)
    except KeyboardInterrupt as stop:
        return _fail(str(stop) or "stopped", STOPPED)
    except BrokenPipeError:  # the reader of a pipe has seen enough
        _drop_output()
        return 0
    except OSError as error:
        _drop_output()
        return _fail(_memory_message(error) or f"{error}; check the disk and the paths given", MISTAKE)
    except (MemoryError, RuntimeError) as error:
        return _fail(_memory_message(error) or _lost_worker_message(error), MISTAKE)


def _memory_message(error: Exception) -> str:
    """The sentence for want of memory; nothing for any other error."""
    from equipoise.ops.out_of_memory import lacks_memory, memory_phrase

    if not lacks_memory(error):
        return ""
    return (
        f"{memory_phrase(error)}; ask for less at once (a smaller evaluation.batch_size or evaluation.chunk, a smaller "
        "model or preprocess.size), or use a machine with more"
    )


def _is_text(word: str) -> bool:
    """Whether a word can be stored: bytes of the command line that are no text arrive as surrogates."""
    return not any("\ud800" <= sign <= "\udfff" for sign in word)


def _lost_worker_message(error: Exception) -> str:
    """The sentence for the death of a process that reads data; any other error is raised again."""
    from equipoise.data.prefetch import lost_worker

    sentence = lost_worker(error)
    if sentence is None:
        raise error
    return sentence


def _fail(sentence: str, code: int) -> int:
    print(f"equipoise: {one_line(sentence)}", file=sys.stderr)
    return code


class _WarningsOnce:
    """Print warnings, the same sentence once a command: Python's own memory of them ends where filters change."""

    def __init__(self) -> None:
        self.told: set[str] = set()

    def __call__(self, message: Warning | str, category: type[Warning], *_: object) -> None:
        kind = "" if issubclass(category, Notice) else "warning: "
        sentence = f"equipoise: {kind}{one_line(str(message))}"
        if sentence not in self.told:
            self.told.add(sentence)
            print(sentence, file=sys.stderr)


def _drop_output() -> None:
    """Discard what could not be printed, so that it is not tried again at exit."""
    with suppress(OSError):  # a standard output that is no file
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
