"""Text from outside as part of a sentence."""

from __future__ import annotations


def one_line(text: str) -> str:
    """Any text as part of one printable line."""
    return text if text.isprintable() else text.encode("unicode_escape").decode()
