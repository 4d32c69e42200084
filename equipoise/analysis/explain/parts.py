"""The parts of a pair's similarity that are worth a look, the largest first (`score.py` says what parts are).

product of spheres    every sphere, by its own similarity
code book             codes that fire in both, by the product of their shares
sets of tokens        each word token with its closest patch, by their similarity
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from equipoise.analysis.explain.places import text_places
from equipoise.models.model import ImageLike, Model
from equipoise.readouts import CodeBook, CodeBookReadout
from equipoise.spaces import ProductSphere, TokenSets
from equipoise.types import UserError

Part = tuple[int, ...]


def largest_parts(model: Model, image: ImageLike, text: str, most: int = 4) -> list[Part]:
    """At most so many parts; raises UserError for a similarity that has none."""
    if isinstance(model.image_readout, CodeBookReadout) and isinstance(model.text_readout, CodeBookReadout):
        return _codes(model, image, text, most)
    u, v = model.encode_image(image), model.encode_text(text)
    if isinstance(model.space, ProductSphere):
        m = model.space.m
        own = (u.unflatten(1, (m, -1)) * v.unflatten(1, (m, -1))).sum(-1)[0]
        return [(k,) for k in _largest(own, most)]
    if isinstance(model.space, TokenSets):
        patches, tokens = (x.unflatten(1, (model.space.m, -1))[0] for x in (u, v))
        words = _word_tokens(model, text)
        closest = (tokens[words] @ patches[patches.ne(0).any(1)].T).max(1)
        return [(int(closest.indices[number]), words[number]) for number in _largest(closest.values, most)]
    raise UserError(
        "the similarity of this model has no parts; leave --part out, or take a model with several class tokens, a "
        "code book or sets of tokens"
    )


def _word_tokens(model: Model, text: str) -> list[int]:
    """Rows of the text encoder's tokens that are parts of words: neither start nor end."""
    first = text_places(model.text_encoder).tokens_first
    return [place + first for place, span in enumerate(model.tokenizer.word_spans([text])[0]) if span is not None]


@torch.no_grad()
def _codes(model: Model, image: ImageLike, text: str, most: int) -> list[Part]:
    assert isinstance(model.shared, CodeBook)
    assert isinstance(model.image_readout, CodeBookReadout)
    assert isinstance(model.text_readout, CodeBookReadout)
    pixels = model.image_encoder.prepare([image], model.preprocess).to(model.device)
    ids, mask = (x.to(model.device) for x in model.text_encoder.prepare([text], None, model.tokenizer))
    features = model.tower("image").features(pixels, with_tokens=True)
    words = model.tower("text").features(ids, mask, with_tokens=True)
    both = model.image_readout.weights(features, model.shared) * model.text_readout.weights(words, model.shared)
    return [(code,) for code in _largest(both[0], most) if both[0, code] > 0]


def _largest(values: Tensor, most: int) -> Sequence[int]:
    return values.topk(min(most, len(values))).indices.tolist()
