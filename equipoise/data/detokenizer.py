"""Token ids back to text, for captions that a model writes.

Byte-level pieces (CLIP's) hold bytes, and mark the last piece of a word with </w>; WordPiece (BERT's) marks those that
continue one with ##; of other tokenizers the file says how pieces are joined. Start, end and padding are left out.
Signs are tokens of their own there, so the spaces around them are guessed: none before a comma, an 's or 't, none
around a hyphen between words ("a medium-sized fish, isn't it").
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from equipoise.data.tokenizer import CaptionTokenizer

WORD_END, CONTINUED = "</w>", "##"
LOOSE = re.compile(r"\s+(?=[,.!?;:%)]|'(?:s|t|re|ve|m|ll|d)\b|n't\b)")
HYPHEN = re.compile(r"(?<=\w) ?- ?(?=\w)")


class Detokenizer:
    def __init__(self, tokens: CaptionTokenizer):
        described = tokens.description()
        self._model: dict[str, Any] = described["model"]
        added = {entry["id"] for entry in described.get("added_tokens", ()) if entry.get("special")}
        self._dropped = added | {tokens.start, tokens.end, tokens.pad, tokens.mask_id}
        self._tokenizer = tokens._tokenizer
        self._bytes = _byte_of() if self._model.get("end_of_word_suffix") == WORD_END else {}

    def __call__(self, ids: Iterable[int]) -> str:
        """The text of one caption."""
        kept = [number for number in ids if number not in self._dropped]
        return HYPHEN.sub("-", LOOSE.sub("", " ".join(self._joined(kept).split())))

    def _joined(self, ids: Sequence[int]) -> str:
        if not self._bytes and self._model.get("type") != "WordPiece":
            return str(self._tokenizer.decode(list(ids), skip_special_tokens=True))
        pieces = [self._tokenizer.id_to_token(number) or "" for number in ids]
        if self._bytes:
            return "".join(map(self._read_bytes, " ".join(self._words(pieces)).split(" "))).strip()
        return "".join(piece.removeprefix(CONTINUED) if _continues(piece) else f" {piece}" for piece in pieces)

    def _words(self, pieces: Sequence[str]) -> list[str]:
        return "".join(pieces).split(WORD_END)

    def _read_bytes(self, word: str) -> str:
        return bytes(self._bytes[sign] for sign in word if sign in self._bytes).decode("utf-8", "replace") + " "


def _continues(piece: str) -> bool:
    return piece.startswith(CONTINUED) and piece != CONTINUED


def _byte_of() -> dict[str, int]:
    """The byte that each printable character of a byte-level vocabulary stands for (GPT-2's table)."""
    printable = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAC + 1), *range(0xAE, 0xFF + 1)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(256 + place): byte for place, byte in enumerate(others)}
