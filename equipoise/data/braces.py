"""Names of many files in one: `a-{00..02}.tar` is a-00.tar, a-01.tar, a-02.tar; `{x,y}.tar` is x.tar, y.tar."""

from __future__ import annotations

import re
from collections.abc import Iterator

from equipoise.settings.trust import PIPE
from equipoise.types import UserError

BRACES = re.compile(r"\{([^{}]*)\}")
RANGE = re.compile(r"(\d+)\.\.(\d+)")
MOST_FILES = 1_000_000


def expand_braces(pattern: str) -> Iterator[str]:
    """All names that a pattern stands for, in order."""
    match = BRACES.search(pattern)
    if not match or pattern.startswith(PIPE):  # in a shell command braces are the shell's
        yield pattern
        return
    before, after = pattern[: match.start()], pattern[match.end() :]
    for middle in _alternatives(match[1], pattern):
        yield from expand_braces(f"{before}{middle}{after}")


def _alternatives(inside: str, pattern: str) -> list[str]:
    numbers = RANGE.fullmatch(inside)
    if not numbers:
        return inside.split(",")
    first, last = (int(digits[:20]) for digits in numbers.groups())
    if not 0 <= last - first < MOST_FILES:
        raise UserError(f'"{pattern}" has the range {{{inside}}}; count upwards, to {MOST_FILES:,} files at most')
    return [f"{number:0{len(numbers[1])}d}" for number in range(first, last + 1)]
