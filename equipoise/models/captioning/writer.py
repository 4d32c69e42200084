"""What the next word of captions may be: its logits, of pictures that were looked at once.

With a cache a word costs one pass of one token, whose keys and values are kept; without, all words are read again. Both
give the same numbers but for rounding.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from equipoise.data.preprocess import Preprocess
from equipoise.data.tokenizer import CaptionTokenizer
from equipoise.encoders.encoder import Continues, ImageEncoder, TextEncoder
from equipoise.encoders.key_value_cache import KeyValueCache
from equipoise.encoders.packing import Packed
from equipoise.heads.caption import CaptionHead, picture_tokens
from equipoise.heads.head import Head
from equipoise.models.captioning.settings import Decoding
from equipoise.types import UserError


class Writes(Protocol):
    """What captions need of a model."""

    image_encoder: ImageEncoder
    text_encoder: TextEncoder
    preprocess: Preprocess
    tokenizer: CaptionTokenizer
    prompts: Any

    @property
    def device(self) -> torch.device: ...

    def tower(self, name: str) -> Any: ...

    def all_heads(self) -> list[Head]: ...

    def caption_batch(
        self, images: Tensor, settings: Decoding, mask: Tensor | None, first: int
    ) -> Sequence[list[int]]: ...


def caption_head(model: Writes) -> CaptionHead:
    """The head that writes captions; raises UserError where the model has none, or cannot use it."""
    head = next((head for head in model.all_heads() if isinstance(head, CaptionHead)), None)
    if head is None:
        raise UserError(
            "this model writes no captions: it has no decoder for them; train one with objective.name = coca "
            "(docs/caption.md)"
        )
    if model.prompts is not None or not isinstance(model.text_encoder, Continues):
        raise UserError("this model writes no captions: its texts have prompts, which words cannot follow")
    return head


class CaptionWriter:
    """Logits of next words; `images` are prepared, with a mask where some of their features are padding."""

    def __init__(self, model: Writes, images: Tensor, mask: Tensor | None, room: int, cache: bool = True):
        self.head, self.room, self.cache = caption_head(model), room, cache
        self.text = model.text_encoder
        features = model.tower("image").features(images, *(() if mask is None else (mask,)), with_tokens=True)
        tokens, self.padding = picture_tokens(features)
        self.image = self.head.decoder.keys_values(tokens)
        self.pictures = len(tokens)
        self._of_text, self._of_decoder = KeyValueCache(room), KeyValueCache(room)

    def next(self, ids: Tensor) -> Tensor:
        """Logits [M, V] of the word that follows ids [M, L], M a multiple of the pictures: several captions of one
        stand together. With a cache, ids are those of the last call with one more behind."""
        h = self._from_cache(ids[:, self._of_text.length :]) if self.cache else self._from_start(ids)
        return self.head.logits(h)

    def reorder(self, rows: Tensor) -> None:
        """Make caption i what caption `rows[i]` was."""
        if self.cache:
            self._of_text.reorder(rows)
            self._of_decoder.reorder(rows)

    def _from_cache(self, new: Tensor) -> Tensor:
        assert isinstance(self.text, Continues)
        x = self.text.continued(new, self._of_text)
        h = self.head.decoder(x, self.image, self._of_decoder, self.padding)
        self._of_decoder.advance(new.shape[1])
        return h[:, -1]

    def _from_start(self, ids: Tensor) -> Tensor:
        each, mask = len(ids) // self.pictures, torch.ones_like(ids, dtype=torch.bool)
        tokens = self.text(ids, mask).tokens
        image = [asked.repeat_interleave(each, 0) for asked in self.image]
        padding = None if self.padding is None else self.padding.repeat_interleave(each, 0)
        layout = Packed.of(mask, causal=True)
        return layout.unpack(self.head.decoder(layout.pack(tokens), image, layout, padding))[:, -1]
