"""Explanations of pairs: the methods by name, and the way from a picture and a text to relevance."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isqrt

import torch
from torch import Tensor

from equipoise.analysis.explain.grad_cam import grad_cam
from equipoise.analysis.explain.grad_eclip import grad_eclip
from equipoise.analysis.explain.gradient_attention import gradient_attention
from equipoise.analysis.explain.legrad import legrad
from equipoise.analysis.explain.places import image_places, text_places
from equipoise.analysis.explain.rollout import rollout
from equipoise.analysis.explain.trace import Trace, trace
from equipoise.data.tokenizer import NoTokenizer
from equipoise.models.explanation import Explanation, Word
from equipoise.models.model import ImageLike, Model
from equipoise.types import UserError

Span = tuple[int, int]
Method = Callable[[Trace], Tensor]  # relevance of places [N, L], none negative

METHODS: dict[str, Method] = {
    "gradient_attention": gradient_attention,
    "legrad": legrad,
    "grad_eclip": grad_eclip,
    "grad_cam": grad_cam,
    "rollout": rollout,
}
OF_FEATURES = frozenset({"grad_cam"})  # the others read attention
AUTO = "auto"  # the first of METHODS that the image tower allows


@dataclass(frozen=True)
class Relevance:
    """Of a batch of pairs, as shares."""

    scores: Tensor  # [N]
    places: Tensor  # [N, S, S]
    tokens: Tensor  # [N, L] of the texts' token ids


def explain(
    model: Model, image: ImageLike, text: str, method: str = AUTO, part: int | Sequence[int] | None = None
) -> Explanation:
    """Relevance of a picture's places and a text's words for their similarity, or for a part of it (`score.py`)."""
    numbers = _part(part)
    method = chosen_method(model, method)
    require_words(model)
    found = relevance(model, model.image_encoder.prepare([image], model.preprocess), [text], method, numbers)
    spans, shares = model.tokenizer.word_spans([text])[0], found.tokens[0].tolist()
    words = by_word(spans, shares)
    said = tuple(Word(text[start:stop], start, stop, share) for (start, stop), share in words.items())
    return Explanation(method, found.scores[0].item(), numbers, text, found.places[0].double().cpu().numpy(), said)


def relevance(model: Model, images: Tensor, texts: Sequence[str], method: str, part: Sequence[int] = ()) -> Relevance:
    """Relevance of preprocessed images [N, 3, H, W], each with the text at its place."""
    ids, mask = model.text_encoder.prepare(list(texts), None, model.tokenizer)
    words = torch.zeros_like(mask)
    for row, spans in zip(words, model.tokenizer.word_spans(texts), strict=True):
        row[: len(spans)] = torch.tensor([span is not None for span in spans])
    images, ids, mask, words = (tensor.to(model.device) for tensor in (images, ids, mask, words))
    traced = trace(model, images, ids, mask, words, part)
    places = shares(METHODS[method](traced.image), traced.image.real)
    side = isqrt(places.shape[1])
    if side * side != places.shape[1]:
        raise UserError(f"the {places.shape[1]} places of a picture are no square, so they make no map")
    tokens = shares(METHODS[method](traced.text), traced.text.real)
    return Relevance(traced.scores, places.unflatten(1, (side, side)), tokens)


def shares(values: Tensor, real: Tensor) -> Tensor:
    """Relevance [N, L] over its sum, 0 for what is not real; all 0 where nothing is relevant."""
    values = values.detach() * real
    return values / values.sum(1, keepdim=True).clamp(min=torch.finfo(values.dtype).tiny)


def by_word(spans: Sequence[Span | None], tokens: Sequence[float]) -> dict[Span, float]:
    """Relevance of words, by where they stand, from that of their tokens; what lies behind the last is padding."""
    words = {span: 0.0 for span in spans if span is not None}
    for span, share in zip(spans, tokens, strict=False):
        if span is not None:
            words[span] += share
    return words


def allowed_methods(model: Model) -> list[str]:
    """Names of the methods that both towers allow, the default first."""
    attends = image_places(model.image_encoder).attends and text_places(model.text_encoder).attends
    return [name for name in METHODS if attends or name in OF_FEATURES]


def chosen_method(model: Model, method: str) -> str:
    """The name of a method; raises UserError for one that does not exist or that the model does not allow."""
    if method not in (AUTO, *METHODS):
        raise UserError(f"there is no method {method!r} of explanation; choose one of {AUTO}, {', '.join(METHODS)}")
    allowed = allowed_methods(model)
    if method == AUTO:
        return allowed[0]
    if method not in allowed:
        raise UserError(
            f"{method} reads attention among all places, but this model's {type(model.image_encoder).__name__} attends "
            f"within windows; choose {', '.join(allowed)}"
        )
    return method


def require_words(model: Model) -> None:
    """Raise UserError for a model that reads features instead of pictures or words."""
    for encoder, wanted in ((model.image_encoder, "pictures"), (model.text_encoder, "words")):
        if encoder.reads != wanted:
            raise UserError(f"this model reads {encoder.reads} instead of {wanted}, which cannot be explained")
    if isinstance(model.tokenizer, NoTokenizer):
        raise UserError("this model has no tokenizer, so there are no words to explain")


def _part(part: int | Sequence[int] | None) -> tuple[int, ...]:
    if part is None:
        return ()
    return (part,) if isinstance(part, int) else tuple(part)
