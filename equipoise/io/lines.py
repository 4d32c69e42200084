"""Any text as one line of a terminal."""

from __future__ import annotations


def one_line(text: str) -> str:
    """The text in one printable line: names and values that a sentence quotes may hold line breaks and worse."""
    line = " ".join(text.split())
    return line if line.isprintable() else "".join(sign if sign.isprintable() else repr(sign)[1:-1] for sign in line)
