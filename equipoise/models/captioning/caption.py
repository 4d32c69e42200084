"""Captions of pictures, a batch at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from equipoise.data.detokenizer import Detokenizer
from equipoise.data.rng import generator
from equipoise.heads.caption import CaptionHead
from equipoise.models.captioning.beam_search import beam_search
from equipoise.models.captioning.next_word import Specials, write_words
from equipoise.models.captioning.settings import Decoding
from equipoise.models.captioning.writer import CaptionWriter, Writes, caption_head
from equipoise.types import UserError


def writes_captions(model: Writes) -> bool:
    """Whether the model has a decoder of captions."""
    return any(isinstance(head, CaptionHead) for head in model.all_heads())


@torch.no_grad()
def caption_images(
    model: Writes, images: Any, settings: Decoding, batch_size: int = 64, mask: Tensor | None = None, first: int = 0
) -> Iterator[str]:
    """Captions of `images`, as `encode_image` takes them, in their order. `first` is the number of the first among all,
    by which words are drawn: a caption does not depend on how pictures are split."""
    caption_head(model)
    if batch_size < 1:
        raise UserError(f"batch_size must be at least 1, not {batch_size}")
    text_of = Detokenizer(model.tokenizer)
    for start in range(0, len(images), batch_size):
        part = images[start : start + batch_size]
        prepared = model.image_encoder.prepare(part, model.preprocess).to(model.device)
        real = None if mask is None else mask[start : start + batch_size].to(model.device)
        for ids in model.caption_batch(prepared, settings, real, first + start):
            yield text_of(ids)


@torch.no_grad()
def caption_ids(
    model: Writes, images: Tensor, settings: Decoding, mask: Tensor | None = None, first: int = 0
) -> Sequence[list[int]]:
    """Token ids, between start and end, of the captions of prepared images."""
    tokens, context = model.tokenizer, getattr(model.text_encoder, "context", settings.longest)
    longest = min(settings.longest, context)
    writer = CaptionWriter(model, images, mask, longest, settings.cache)
    assert tokens.start is not None  # as texts of causal towers have
    never = {tokens.start, tokens.pad, tokens.mask_id} - {tokens.end, None}
    specials = Specials(tokens.start, tokens.end, tuple(sorted(number for number in never if number is not None)))
    if settings.method == "beam":
        given = (settings, longest, len(images), images.device)
        return beam_search(writer.next, writer.reorder, specials, *given)
    numbers = range(first, first + len(images))
    draws = torch.stack([torch.rand(longest, generator=generator(settings.seed, "caption", n)) for n in numbers])
    return write_words(writer.next, specials, settings, longest, draws, images.device)
