"""Captions to token ids: start token first, end token last, padded on the right.

A tokenizer is learned from the captions at hand or read from files, and is saved with the model as one
`tokenizer.json` that holds everything, the context too: `tokenizers` alone reads it and gives the same ids.

SigLIP's texts have an end token alone and are padded to the context: a tokenizer.json that adds one token, behind the
text, and has padding of a fixed length is read so.

No caption is lost in silence: one that is too long is cut and counted (or raises UserError, if `strict`), an empty one
is an error. Special tokens spelled out in a caption are plain text, so no caption can pretend to end early.
"""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import torch
from torch import Tensor

from equipoise.data.tokenizer_checks import caption_name, check_caption, check_text, checked_captions
from equipoise.data.tokenizer_memory import PieceMemory
from equipoise.data.tokenizer_panics import panics_as_errors
from equipoise.data.tokenizer_words import word_spans_of, words_of
from equipoise.io.atomic import write_text
from equipoise.settings.bounds import bounded
from equipoise.types import UserError

if TYPE_CHECKING:
    from tokenizers import Tokenizer

CLIP_CONTEXT = 77
MOST_CONTEXT = 2**16
WIDTH_STEP = 4  # batches are padded to a multiple of this, so that few different widths occur
KINDS = ("bpe", "wordpiece", "file", "none")
MOST = 2**24  # tokens of a vocabulary: a model has a row for each
FEWEST = 6  # tokens left to a caption beside further class tokens: start, end and a few words
PADS = ("[PAD]", "<pad>", "<|pad|>")  # a vocabulary with none of these, as CLIP's, is padded with 0
MASKS = ("[MASK]", "<mask>", "<|mask|>")


class CaptionTokenizer:
    """A tokenizer with its context: `ids, mask = tokens(captions)`."""

    @dataclass(frozen=True)
    class Config:
        kind: str = "bpe"  # bpe (as CLIP) and wordpiece (as BERT) are learned from the captions; file is read;
        # none is for a model whose texts are features already
        vocabulary: int = bounded(2048, 0, MOST)  # tokens to learn, at most
        context: int = bounded(CLIP_CONTEXT, 0, MOST_CONTEXT)  # the most tokens of a caption, all special ones included
        mask: bool = False  # a mask token beside the vocabulary; an objective that hides words asks for it by itself
        file: str = ""  # a tokenizer.json, CLIP's vocab.json beside merges.txt or its
        # bpe_simple_vocab_16e6.txt.gz, BERT's vocab.txt, or their folder

        def __post_init__(self) -> None:
            if self.kind not in KINDS:
                raise UserError(f"tokens.kind is {self.kind!r}; choose one of {', '.join(KINDS)}.")
            if (self.kind == "file") != bool(self.file):
                raise UserError(f"tokens.kind is {self.kind!r} and tokens.file is {self.file!r}; each needs the other.")

        def beside(self, classes: int, prompts: int = 0) -> CaptionTokenizer.Config:
            """The settings with the context that class tokens (a caption's start token is one) and prompts leave."""
            further = classes - 1 + prompts
            room = self.context - further
            if further and self.kind != "none" and room < FEWEST:
                takers = [("class tokens", classes, "space.m")] * (classes > 1)
                takers += [("prompts", prompts, "prompts.length")] * (prompts > 0)
                taken = " and ".join(f"{count} {name}" for name, count, _ in takers)
                fewer = " and ".join(f"{name} ({key})" for name, _, key in takers)
                raise UserError(
                    f"tokens.context is {self.context}, but {taken} leave {room} of it to captions; "
                    f"set it to {FEWEST + further} or more, or choose fewer {fewer}."
                )
            return replace(self, context=room) if further else self

    def __init__(self, tokenizer: Tokenizer, context: int = CLIP_CONTEXT, fill: int | None = None):
        """`fill` is the token that fills the context of texts that have no start token."""
        from equipoise.data.tokenizer_training import only_end, start_and_end

        if not 3 <= context <= MOST_CONTEXT:
            raise UserError(
                f"tokens.context is {context}; it must hold a start token, an end token and one between, and at most "
                f"{MOST_CONTEXT:,}."
            )
        padding = tokenizer.padding or {}
        tokenizer.no_truncation()
        tokenizer.no_padding()
        end = only_end(tokenizer)
        if fill is None and padding.get("length") and end is not None:
            fill = padding["pad_id"]
        tokenizer.encode_special_tokens = True  # as plain text: a caption must not be able to write an end token
        self.context = context
        self.truncated = 0  # captions cut so far
        self.fill = fill
        self.start: int | None = None
        if fill is None:
            self.start, self.end = start_and_end(tokenizer)
        elif end is None:
            raise UserError("The tokenizer must put one token behind a text and none before it, as SigLIP's does.")
        else:
            self.end = end
        self.pad = (_first_known(tokenizer, PADS) or 0) if fill is None else fill
        self.mask_id = _first_known(tokenizer, MASKS)
        self.size = max(tokenizer.get_vocab().values()) + 1
        self._tokenizer = tokenizer
        self._pieces = PieceMemory(self._cut)

    @classmethod
    def train(cls, captions: Iterable[str], config: Config) -> CaptionTokenizer:
        """A tokenizer learned from `captions`; the same captions always give the same tokenizer."""
        from equipoise.data.tokenizer_training import train_bpe, train_wordpiece

        learn = {"bpe": train_bpe, "wordpiece": train_wordpiece}[config.kind]
        return cls(learn(checked_captions(captions), config.vocabulary), config.context)

    @classmethod
    def load(cls, path: str | Path, context: int | None = None) -> CaptionTokenizer:
        """A tokenizer from a file or folder (see Config.file); without `context`, the file's own or CLIP's 77."""
        from equipoise.data.tokenizer_files import read_tokenizer

        tokenizer = read_tokenizer(path)
        own = (tokenizer.truncation or {}).get("max_length", CLIP_CONTEXT)
        made = cls(tokenizer, own if context is None else context)
        if made.size > MOST:
            raise UserError(f"{path}: its largest token id is {made.size - 1}, beyond {MOST - 1}; mend the ids.")
        return made

    @classmethod
    def from_config(cls, config: Config, captions: Iterable[str]) -> CaptionTokenizer:
        """What the configuration asks for: learned from `captions`, or read from its file, or none."""
        if config.kind == "none":
            return NoTokenizer()
        made = cls.load(config.file, config.context) if config.kind == "file" else cls.train(captions, config)
        return made.with_mask() if config.mask else made

    def within(self, context: int) -> CaptionTokenizer:
        """A tokenizer with another context, otherwise the same."""
        return CaptionTokenizer(self._tokenizer, context, self.fill)

    def with_mask(self) -> CaptionTokenizer:
        """A tokenizer with a mask token, behind all others where there was none."""
        if self.mask_id is None:
            self._tokenizer.add_special_tokens([MASKS[-1]])
        return CaptionTokenizer(self._tokenizer, self.context, self.fill)

    def save(self, folder: str | Path) -> None:
        """Writes `tokenizer.json` into the folder; `CaptionTokenizer.load(folder)` gives the same ids."""
        whole = type(self._tokenizer).from_str(self._tokenizer.to_str())
        whole.enable_truncation(self.context)
        fixed = None if self.fill is None else self.context
        whole.enable_padding(pad_id=self.pad, pad_token=whole.id_to_token(self.pad), length=fixed)
        write_text(Path(folder) / "tokenizer.json", whole.to_str(pretty=True))

    def description(self) -> dict[str, Any]:
        """What `tokenizer.json` holds: pieces, merges, how text is cut."""
        return json.loads(self._tokenizer.to_str())

    def __reduce__(self) -> tuple[Any, ...]:
        """How it travels to another process, where `tokenizers` would forget that special tokens are plain text."""
        return _from_text, (self._tokenizer.to_str(), self.context, self.fill)

    def __call__(
        self,
        captions: str | Sequence[str],
        keys: Sequence[str] | None = None,
        *,
        pad_to_context: bool = False,
        strict: bool = False,
    ) -> tuple[Tensor, Tensor]:
        """Captions -> ids [N, L] int64 and mask [N, L] bool, True where a token is real. `keys` name them in errors."""
        captions = [captions] if isinstance(captions, str) else captions
        for place in self._pieces.unknown(captions):
            check_caption(captions[place], caption_name(place, keys))
        with panics_as_errors("captions cannot be cut into tokens"):
            pieces = self._pieces(captions)
        before, room, end = self._before, self.room, self.end
        rows = [(*before, *ids, end) for ids in pieces]
        for place, ids in enumerate(pieces):
            if not 0 < len(ids) <= room:
                rows[place] = self._row(ids, captions[place], place, keys, strict)
        longest = max(map(len, rows), default=1)
        width = self.context if pad_to_context else min(self.context, math.ceil(longest / WIDTH_STEP) * WIDTH_STEP)
        return self._pad(rows, width)

    def leaves_nothing(self, captions: Sequence[str], keys: Sequence[str] | None = None) -> list[bool]:
        """Whether no token is left of each caption, as of a mark that stands alone or of a space without width."""
        for place, caption in enumerate(captions):
            check_text(caption, caption_name(place, keys))
        return [not ids for ids in self._pieces(captions)]

    def words(self, captions: Sequence[str]) -> list[list[str | None]]:
        """For each caption, the word that each of its tokens is part of, in small letters; None for the start, the end
        and signs that are no words."""
        return [
            [*[None] * (self.start is not None), *words_of(encoding, caption)[: self.room], None]
            for encoding, caption in zip(
                self._tokenizer.encode_batch(captions, add_special_tokens=False), captions, strict=True
            )
        ]

    def word_spans(self, captions: Sequence[str]) -> list[list[tuple[int, int] | None]]:
        """For each caption, where the word stands that each of its tokens is part of, as `words` has them."""
        encodings = self._tokenizer.encode_batch(captions, add_special_tokens=False)
        return [
            [*[None] * (self.start is not None), *word_spans_of(encoding, caption)[: self.room], None]
            for encoding, caption in zip(encodings, captions, strict=True)
        ]

    def _cut(self, captions: list[str]) -> list[list[int]]:
        encodings = self._tokenizer.encode_batch_fast(captions, add_special_tokens=False)
        return [encoding.ids for encoding in encodings]

    def _row(
        self, pieces: Sequence[int], caption: str, place: int, keys: Sequence[str] | None, strict: bool
    ) -> tuple[int, ...]:
        """The ids of a caption that has none or too many, between start and end, cut to the context."""
        name = caption_name(place, keys)
        if not pieces:
            raise UserError(f"{name} is {caption!r}, which has no words; give it some or leave the pair out.")
        self._note_cut(len(pieces) + self.context - self.room, caption, name, strict)
        return *self._before, *pieces[: self.room], self.end

    @property
    def room(self) -> int:
        """The most pieces of a caption."""
        return self.context - 1 - len(self._before)

    @property
    def _before(self) -> tuple[int, ...]:
        return () if self.start is None else (self.start,)

    def _note_cut(self, length: int, caption: str, name: str, strict: bool) -> None:
        fault = f"{name} ({caption[:40]!r}...) has {length} tokens, but the context is {self.context}"
        if strict:
            raise UserError(f"{fault}; shorten it or raise tokens.context.")
        if self.truncated == 0:
            warnings.warn(f"{fault}; its end is cut off, and so will others' be, counted in `truncated`.", stacklevel=4)
        self.truncated += 1

    def _pad(self, rows: Sequence[Sequence[int]], width: int) -> tuple[Tensor, Tensor]:
        lengths = np.fromiter(map(len, rows), np.int64, len(rows))
        real = np.arange(width) < lengths[:, None]
        ids = np.full((len(rows), width), self.pad, dtype=np.int64)
        ids[real] = np.fromiter(chain.from_iterable(rows), np.int64, lengths.sum())
        return torch.from_numpy(ids), torch.from_numpy(real)


class NoTokenizer(CaptionTokenizer):
    """Stands for the tokenizer of a model that reads no words. Leaves no file."""

    def __init__(self) -> None:
        self.size = self.context = self.truncated = 0

    def __reduce__(self) -> tuple[Any, ...]:
        return NoTokenizer, ()

    def save(self, folder: str | Path) -> None:
        pass

    def leaves_nothing(self, captions: Sequence[str], keys: Sequence[str] | None = None) -> NoReturn:
        self(captions)

    def __call__(self, captions: str | Sequence[str], *_: object, **__: object) -> NoReturn:
        raise UserError("there is no tokenizer here to read words with; set tokens.kind to bpe, wordpiece or file")


def _from_text(tokenizer: str, context: int, fill: int | None = None) -> CaptionTokenizer:
    from tokenizers import Tokenizer

    return CaptionTokenizer(Tokenizer.from_str(tokenizer), context, fill)


def _first_known(tokenizer: Tokenizer, names: Sequence[str]) -> int | None:
    known = (tokenizer.token_to_id(name) for name in names)
    return next((number for number in known if number is not None), None)
