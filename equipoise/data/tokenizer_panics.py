"""Panics of `tokenizers`: how its Rust code fails on a description that it has accepted, such as a pattern that takes
more steps than any text is worth.

Python sees one as PanicException, which is no Exception, after Rust has printed a backtrace of its own. Here it becomes
a UserError; while a file is read and tried, what Rust prints is dropped.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from equipoise.types import UserError

if TYPE_CHECKING:
    from tokenizers import Tokenizer

PANIC = "PanicException"  # a class of pyo3, which cannot be imported
MOST_GROWTH = 1000  # times that replacements within a normalizer may lengthen a text
TRIED = ("a photo of a dog", f"{'a' * 64}b", f"{'1' * 64}a", f"{' ' * 64}a", "Ünïcödé ’s — 日本語")
_one_at_a_time = threading.Lock()  # standard error belongs to the whole process


@contextmanager
def panics_as_errors(what: str) -> Iterator[None]:
    """Raise UserError, which begins with `what`, where Rust panics."""
    try:
        yield
    except BaseException as error:
        if type(error).__name__ != PANIC:
            raise
        reason = (str(error).splitlines() or [PANIC])[0]
        raise UserError(f"{what}: the tokenizer breaks down ({reason}); give another tokenizer.json") from None


def try_out(tokenizer: Tokenizer, what: str) -> None:
    """Encode a few texts; raises UserError where the tokenizer cannot, or would make them far too long."""
    import json

    with panics_as_errors(what):
        if _growth(json.loads(tokenizer.to_str()).get("normalizer")) > MOST_GROWTH:
            raise UserError(f"{what}: its normalizer makes texts over {MOST_GROWTH:,} times as long; give another")
        tokenizer.encode_batch_fast(list(TRIED), add_special_tokens=False)
        tokenizer.encode("")


@contextmanager
def silent_rust() -> Iterator[None]:
    """Drop what is written to standard error by others than Python."""
    with _one_at_a_time:
        sys.stderr.flush() if sys.stderr is not None else None
        kept, null = os.dup(2), os.open(os.devnull, os.O_WRONLY)
        try:
            os.dup2(null, 2)
            yield
        finally:
            os.dup2(kept, 2)
            os.close(kept)
            os.close(null)


def _growth(normalizer: Any) -> float:
    """How many times as long a normalizer may make a text."""
    if not isinstance(normalizer, dict):
        return 1
    growth: float = 1 + len(str(normalizer.get("content", ""))) + len(str(normalizer.get("prepend", "")))
    inner: Sequence[Any] = normalizer.get("normalizers", ())
    for one in inner:
        growth *= _growth(one)
    return growth
