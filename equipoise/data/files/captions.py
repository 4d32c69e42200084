"""The text that belongs to an image, from the bytes of its file: captions, side data, a class number."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

HALF = re.compile(r"\\u[dD][89a-fA-F]")  # half of a character, perhaps beside its other half
LONGEST = 1 << 22  # bytes of one text file; more is no caption


class BadText(ValueError):
    """Why a text cannot be used, as the end of a sentence that names the record."""


def read_text(data: bytes, what: str) -> str:
    if len(data) > LONGEST:
        raise BadText(f"the {what} has {len(data):,} bytes, more than any caption")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadText(f"the {what} is not UTF-8 text (byte {error.start})") from None


def read_captions(data: bytes) -> list[str]:
    """Reads one caption per line; empty lines do not count."""
    return checked(read_text(data, "caption").splitlines(), "caption")


def read_side(data: bytes) -> dict[str, Any]:
    text = read_text(data, ".json")
    try:
        found = json.loads(text)
        halved = HALF.search(text) and has_surrogates(json.dumps(found, ensure_ascii=False))
    except (ValueError, RecursionError) as error:
        raise BadText(f"the .json cannot be read ({str(error)[:80]})") from None
    if halved:
        raise BadText("the .json holds half a character, an escape from \\ud800 to \\udfff without its other half")
    if not isinstance(found, dict):
        raise BadText("the .json holds no table of names and values")
    return found


def captions_under(side: Mapping[str, Any], key: str) -> list[str]:
    """The captions that side data holds under a key: one, or a list."""
    found = side.get(key)
    if found is None:
        raise BadText(f'the .json has no "{key}"')
    texts = [found] if isinstance(found, str) else found
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise BadText(f'"{key}" in the .json is neither a caption nor a list of captions')
    return checked(texts, f'"{key}" in the .json')


def checked(captions: list[str], what: str) -> list[str]:
    """The captions without the empty ones, on one line each; none at all is an error."""
    kept = [line for line in (" ".join(caption.split()) for caption in captions) if line]
    if not kept:
        raise BadText(f"the {what} is empty")
    for caption in kept:
        if has_surrogates(caption):
            raise BadText(f"the {what} is not UTF-8 text{in_windows(caption)}")
    return kept


def has_surrogates(text: str) -> bool:
    """Whether bytes that are not UTF-8, or half of a character, are in it."""
    return not text.isascii() and any("\ud800" <= letter <= "\udfff" for letter in text)


def in_windows(text: str) -> str:
    """How a text with bytes that are no UTF-8 reads in the encoding that spreadsheets save, as the end of a sentence;
    empty where it does not."""
    try:
        read = text.encode("utf-8", "surrogateescape").decode("cp1252")
    except UnicodeError:  # half a character, or bytes that are nothing there either
        return ""
    return f' (in Windows-1252 it is "{read[:60]}"); save the file as UTF-8' if read.isprintable() else ""


def read_class(data: bytes, classes: int) -> int:
    """The number in a .cls file."""
    digits = data.strip()
    if len(digits) > 9 or not digits.isdigit() or int(digits) >= classes:
        raise BadText(f"the .cls is {data[:20]!r}, not a number from 0 to {classes - 1}")
    return int(digits)
