"""Reading tokenizers from the files that others publish; like `tokenizer_training.py`, it needs `tokenizers`.

A `tokenizer.json` says everything by itself. CLIP's vocab.json with merges.txt, and BERT's vocab.txt, hold only the
pieces: how text is cut into them is known from the models they belong to. OpenAI's own file, a gzipped .txt, holds
merges alone, far more than CLIP uses: its pieces are the bytes and what the first merges make of them.
"""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, models

from equipoise.data.tokenizer_panics import panics_as_errors, silent_rust, try_out
from equipoise.data.tokenizer_training import (
    CLASS,
    CLIP_ALPHABET,
    END,
    SEPARATOR,
    START,
    UNKNOWN,
    bert_tokenizer,
    clip_pieces,
    clip_tokenizer,
)
from equipoise.io.json_files import read_json, read_json_table
from equipoise.types import UserError

CLIP_SIZE = 49408
MOST_NUMBER = 2**24  # an id or a length in a tokenizer.json
WHOLE, CLIP_VOCABULARY, CLIP_MERGES, BERT_VOCABULARY = "tokenizer.json", "vocab.json", "merges.txt", "vocab.txt"


def read_tokenizer(path: str | Path) -> Tokenizer:
    """A tokenizer from a file, or from a folder that holds one."""
    file = _find(Path(path))
    with silent_rust(), panics_as_errors(str(file)):
        tokenizer = _read(file)
        try_out(tokenizer, str(file))
        return tokenizer


def _read(file: Path) -> Tokenizer:
    try:
        if file.name in (CLIP_VOCABULARY, CLIP_MERGES):
            return _read_clip(file.parent)
        if file.name.endswith(".txt.gz"):
            return _read_merges(file)
        if file.suffix == ".txt":
            return _read_bert(file)
        _require_small_numbers(read_json(file), file)
        return Tokenizer.from_file(str(file))
    except (UserError, MemoryError):
        raise
    except Exception as error:  # tokenizers raises plain Exception for whatever is wrong with a file
        raise UserError(f"{file}: this cannot be read as a tokenizer ({error}); give it anew.") from None


def _require_small_numbers(content: Any, file: Path) -> None:
    """The library makes room for the largest id or length it reads, and ends the process where there is not enough."""
    rest = [content]
    while rest:
        value = rest.pop()
        if isinstance(value, int) and value > MOST_NUMBER:
            raise UserError(f"{file}: it holds the number {value}, beyond {MOST_NUMBER:,}; mend its ids and lengths.")
        rest += value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


def _find(path: Path) -> Path:
    names = (WHOLE, CLIP_VOCABULARY, BERT_VOCABULARY)
    files = [path / name for name in names] if path.is_dir() else [path]
    for file in files:
        if file.is_file():
            return file
    if path.is_dir():
        raise UserError(f"{path}: this folder holds no tokenizer; it needs one of {', '.join(names)}.")
    raise UserError(f"{path}: there is no such tokenizer file; give a tokenizer.json, vocab.json or vocab.txt.")


def _read_clip(folder: Path) -> Tokenizer:
    vocabulary, merges = folder / CLIP_VOCABULARY, folder / CLIP_MERGES
    for file, other in ((vocabulary, merges), (merges, vocabulary)):
        if not file.is_file():
            raise UserError(f"{file}: this file is missing; CLIP's tokenizer needs it beside {other.name}.")
    _check_specials(read_json_table(vocabulary), (START, END), vocabulary)
    return clip_tokenizer(*models.BPE.read_file(str(vocabulary), str(merges)))


def _read_merges(file: Path) -> Tokenizer:
    _, *lines = gzip.decompress(file.read_bytes()).decode("utf-8").split("\n")  # the first names a version
    pairs = [line.split() for line in lines[: CLIP_SIZE - len(CLIP_ALPHABET) - len((START, END))]]
    return clip_tokenizer(*clip_pieces([(left, right) for left, right in pairs]))


def _read_bert(file: Path) -> Tokenizer:
    pieces = models.WordPiece.read_file(str(file))
    _check_specials(pieces, (CLASS, SEPARATOR, UNKNOWN), file)
    return bert_tokenizer(pieces)


def _check_specials(pieces: dict[str, int], specials: tuple[str, ...], file: Path) -> None:
    missing = [special for special in specials if special not in pieces]
    if missing:
        raise UserError(f"{file}: {' and '.join(missing)} is not in this vocabulary; give the tokenizer.json instead.")
