"""Which tokenizer belongs to weights: the files beside them, CLIP's own vocabulary, or one that is named.

CLIP's vocabulary is no part of this package. It comes with the model's folder, with an installed open_clip (whose files
are read without importing it), or by --tokenizer.
"""

from __future__ import annotations

import hashlib
import json
from importlib.util import find_spec
from pathlib import Path

from equipoise.data.tokenizer import CaptionTokenizer
from equipoise.types import UserError

CLIP_SIZE = 49408
CLIP_FILE = "bpe_simple_vocab_16e6.txt.gz"
CLIP_DIGEST = "ca43ac56fe977959"  # of CLIP's pieces and merges, as `_digest` computes it
FILES = ("tokenizer.json", "vocab.json")


def find_tokens(folder: Path | None, named: str, context: int, clips: bool) -> CaptionTokenizer:
    """The tokenizer `named`, that of the folder, or CLIP's; `clips` where the model's settings mean CLIP's own."""
    if named:
        tokens = CaptionTokenizer.load(named, context)
    elif folder is not None and any((folder / name).is_file() for name in FILES):
        tokens = CaptionTokenizer.load(folder, context)
    elif clips:
        return CaptionTokenizer.load(_clips_file(), context)
    else:
        raise UserError(
            "the model's settings name a tokenizer of its own, which is not beside it; give it with --tokenizer"
        )
    if clips and not is_clips(tokens):
        raise UserError(
            f"{named or folder}: this tokenizer is not CLIP's, which the model's settings ask for; give CLIP's own "
            f"with --tokenizer ({CLIP_FILE}, or vocab.json beside merges.txt)"
        )
    return tokens


def require_fit(tokens: CaptionTokenizer, vocabulary: int, end: int, where: str) -> None:
    if tokens.size != vocabulary:
        raise UserError(
            f"{where}: the text tower knows {vocabulary} tokens, but the tokenizer has {tokens.size}; give the one it "
            "was trained with (--tokenizer)"
        )
    if tokens.end != end:
        raise UserError(
            f"{where}: texts are read at token {end}, but the tokenizer ends them with {tokens.end}; give the one it "
            "was trained with (--tokenizer)"
        )


def is_clips(tokens: CaptionTokenizer) -> bool:
    return tokens.size == CLIP_SIZE and _digest(tokens) == CLIP_DIGEST


def _digest(tokens: CaptionTokenizer) -> str:
    model = tokens.description()["model"]
    merges = [" ".join(merge) if isinstance(merge, list) else merge for merge in model.get("merges", [])]
    text = json.dumps([model["vocab"], merges], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _clips_file() -> Path:
    spec = find_spec("open_clip")
    for place in (spec.submodule_search_locations or []) if spec else []:
        if (Path(place) / CLIP_FILE).is_file():
            return Path(place) / CLIP_FILE
    raise UserError(
        f"these weights need CLIP's vocabulary, which is not beside them; give --tokenizer PATH ({CLIP_FILE}, or the "
        "folder of any CLIP of transformers), or install open_clip_torch, which brings it"
    )
