"""The tokenizer of imported weights: the files beside them, CLIP's own vocabulary, or one that is named.

CLIP's vocabulary is no part of this package. It comes with the model's folder, with an installed open_clip (whose files
are read without importing it), or by --tokenizer.
"""

from __future__ import annotations

import hashlib
import json
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from equipoise.data.tokenizer import CaptionTokenizer
from equipoise.io.json_files import read_json_table
from equipoise.types import UserError

if TYPE_CHECKING:
    from tokenizers import Tokenizer

CLIP_SIZE = 49408
WHOLE, SETTINGS = "tokenizer.json", "tokenizer_config.json"
CLIP_FILE = "bpe_simple_vocab_16e6.txt.gz"
CLIP_DIGEST = "ca43ac56fe977959"  # of CLIP's pieces and merges, as `_digest` computes it
FILES = ("tokenizer.json", "vocab.json")


def find_tokenizer(folder: Path | None, named: str, context: int, is_clip: bool) -> CaptionTokenizer:
    """The tokenizer `named`, that of the folder, or CLIP's; `is_clip` where the model's config means CLIP's own."""
    if named:
        tokenizer = CaptionTokenizer.load(named, context)
    elif folder is not None and any((folder / name).is_file() for name in FILES):
        tokenizer = CaptionTokenizer.load(folder, context)
    elif is_clip:
        return CaptionTokenizer.load(_clip_vocabulary_file(), context)
    else:
        raise UserError(
            "the model's settings name a tokenizer of its own, which is not beside it; give it with --tokenizer"
        )
    if is_clip and not is_clip_tokenizer(tokenizer):
        raise UserError(
            f"{named or folder}: this tokenizer is not CLIP's, which the model's settings ask for; give CLIP's own "
            f"with --tokenizer ({CLIP_FILE}, or vocab.json beside merges.txt)"
        )
    return tokenizer


def find_siglip_tokenizer(folder: Path | None, named: str, context: int, canonical: bool) -> CaptionTokenizer:
    """The tokenizer `named`, or that of the folder: an end token and no start, padded to the context. A `canonical` one
    drops case and punctuation first."""
    from equipoise.data.tokenizer_files import read_tokenizer
    from equipoise.data.tokenizer_training import canonicalise

    place = Path(named) if named else folder
    if place is None or (place.is_dir() and not (place / WHOLE).is_file()):
        raise UserError(
            f"{place or 'the weights'}: SigLIP's tokenizer is missing; give its {WHOLE} with --tokenizer "
            "(AutoTokenizer.from_pretrained(NAME).save_pretrained(FOLDER) of transformers writes it)"
        )
    tokenizer = read_tokenizer(place)
    settings = _tokenizer_settings(place if place.is_dir() else place.parent)
    fill = _fill(tokenizer, settings, place)
    if canonical or settings.get("tokenizer_class") == "SiglipTokenizer":
        canonicalise(tokenizer)
    return CaptionTokenizer(tokenizer, context, fill)


def _tokenizer_settings(folder: Path) -> dict[str, Any]:
    return read_json_table(folder / SETTINGS) if (folder / SETTINGS).is_file() else {}


def _fill(tokenizer: Tokenizer, settings: dict[str, Any], place: Path) -> int:
    """The token that fills the context: what the tokenizer's settings name, or its own padding."""
    named = settings.get("pad_token")
    named = named.get("content") if isinstance(named, dict) else named
    number = tokenizer.token_to_id(named) if isinstance(named, str) else (tokenizer.padding or {}).get("pad_id")
    if number is None:
        raise UserError(f"{place}: no pad_token is named in {SETTINGS} beside it, which SigLIP's texts are filled with")
    return int(number)


def require_tokenizer_fits(tokenizer: CaptionTokenizer, vocabulary: int, end: int | None, where: str) -> None:
    """Raise UserError where vocabulary or end token are not those of the text tower."""
    if tokenizer.size != vocabulary:
        raise UserError(
            f"{where}: the text tower knows {vocabulary} tokens, but the tokenizer has {tokenizer.size}; give the one "
            "it was trained with (--tokenizer)"
        )
    if end is not None and tokenizer.end != end:
        raise UserError(
            f"{where}: texts are read at token {end}, but the tokenizer ends them with {tokenizer.end}; give the one "
            "it was trained with (--tokenizer)"
        )


def is_clip_tokenizer(tokenizer: CaptionTokenizer) -> bool:
    """Whether pieces and merges are those of CLIP's own vocabulary."""
    return tokenizer.size == CLIP_SIZE and _digest(tokenizer) == CLIP_DIGEST


def _digest(tokenizer: CaptionTokenizer) -> str:
    model = tokenizer.description()["model"]
    merges = [" ".join(merge) if isinstance(merge, list) else merge for merge in model.get("merges", [])]
    text = json.dumps([model["vocab"], merges], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _clip_vocabulary_file() -> Path:
    spec = find_spec("open_clip")
    for place in (spec.submodule_search_locations or []) if spec else []:
        if (Path(place) / CLIP_FILE).is_file():
            return Path(place) / CLIP_FILE
    raise UserError(
        f"these weights need CLIP's vocabulary, which is not beside them; give --tokenizer PATH ({CLIP_FILE}, or the "
        "folder of any CLIP of transformers), or install open_clip_torch, which brings it"
    )
