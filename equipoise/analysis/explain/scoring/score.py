"""All measures of one method on one model."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from equipoise.analysis.explain.relevance import Relevance, by_word, relevance
from equipoise.analysis.explain.scoring import word_hits
from equipoise.analysis.explain.scoring.decoupling import decoupling
from equipoise.analysis.explain.scoring.deletion import deletion_insertion
from equipoise.analysis.explain.scoring.pointing import energy, pointing
from equipoise.analysis.explain.scoring.scenes import Question
from equipoise.data.rng import generator
from equipoise.data.source import Source
from equipoise.models.model import Model
from equipoise.readouts.class_tokens import ClassTokens

TOGETHER = 64  # pairs at once
RANDOM = "random"
Explainer = Callable[[Tensor, Sequence[str]], Relevance]


@dataclass(frozen=True)
class Scored:
    """Measures of one method; what guessing would score is a row of its own, `method` random."""

    method: str
    pointing: float
    energy: float
    pointing_other: float  # at the same box, explained with the name of another thing
    deletion: float
    insertion: float
    word_hits: float
    word_energy: float
    word_drop: float
    milliseconds: float  # a pair: both towers, forward and backward


def score_method(model: Model, source: Source, asked: Sequence[Question], method: str, seed: int = 0) -> Scored:
    """Measures of a method by name; `random` draws relevance."""
    explainer = _random_relevance(model, seed) if method == RANDOM else _explainer(model, method)
    sums: dict[str, Tensor] = {}
    seconds = 0.0
    for start in range(0, len(asked), TOGETHER):
        some = asked[start : start + TOGETHER]
        images = prepared(model, source, some)
        before = time.perf_counter()
        found = explainer(images, [one.name for one in some])
        seconds += time.perf_counter() - before
        measured = {
            **_places(model, explainer, images, some, found, seed + start),
            **_words(model, explainer, images, some),
        }
        for name, values in measured.items():
            sums[name] = sums.get(name, torch.zeros(())) + values.double().sum().cpu()
    mean = {name: float(total) / len(asked) for name, total in sums.items()}
    whole, empty = mean.pop("whole"), mean.pop("empty")
    for name in ("deletion", "insertion"):
        mean[name] = (mean[name] - empty) / (whole - empty) if whole != empty else 0.0
    return Scored(method, **mean, milliseconds=1000 * seconds / len(asked))


def score_tokens(
    model: Model, source: Source, asked: Sequence[Question], method: str, seed: int = 0
) -> dict[str, float]:
    """Decoupling of class tokens, beside that of random maps, and the pointing of each token; empty for other
    readouts."""
    if not isinstance(model.image_readout, ClassTokens) or model.image_readout.m < 2:
        return {}
    tokens, apart, guessed, hits = range(model.image_readout.m), [], [], []
    draw = generator(seed, "explain", "decoupling")
    for start in range(0, len(asked), TOGETHER):
        some = asked[start : start + TOGETHER]
        images, names = prepared(model, source, some), [one.name for one in some]
        maps = torch.stack([relevance(model, images, names, method, (k,)).places for k in tokens], dim=1)
        apart.append(decoupling(maps))
        guessed.append(decoupling(torch.rand(maps.shape, generator=draw)))
        hits.append(torch.stack([pointing(maps[:, k], _boxes(some)) for k in tokens], dim=1))
    each = torch.cat(hits).mean(0).tolist()
    return {
        "decoupling": torch.cat(apart).mean().item(),
        "decoupling_random": torch.cat(guessed).mean().item(),
        **{f"pointing_token_{k}": value for k, value in enumerate(each)},
    }


def prepared(model: Model, source: Source, some: Sequence[Question]) -> Tensor:
    pixels = source.images([one.image for one in some], model.preprocess.side, model.device)
    return model.image_encoder.prepare(pixels, model.preprocess).to(model.device)


def _places(
    model: Model, explainer: Explainer, images: Tensor, some: Sequence[Question], found: Relevance, seed: int
) -> dict[str, Tensor]:
    boxes = _boxes(some)
    texts = model.encode_text([one.name for one in some])

    @torch.no_grad()
    def score(pictures: Tensor) -> Tensor:
        return model.space.pairwise(model.image_points(pictures), texts)

    other = explainer(images, [one.other for one in some]).places
    draw = generator(seed, "explain", "deletion")
    deleted, inserted, whole, empty = deletion_insertion(images, found.places, score, draw)
    return {
        "pointing": pointing(found.places, boxes),
        "energy": energy(found.places, boxes),
        "pointing_other": pointing(other, boxes),
        "deletion": deleted,
        "insertion": inserted,
        "whole": whole,
        "empty": empty,
    }


def _words(model: Model, explainer: Explainer, images: Tensor, some: Sequence[Question]) -> dict[str, Tensor]:
    """Of the sentence that names all things."""
    texts = [one.sentence for one in some]
    tokens = explainer(images, texts).tokens.tolist()
    words = [by_word(spans, shares) for spans, shares in zip(model.tokenizer.word_spans(texts), tokens, strict=True)]
    both = list(zip(texts, words, strict=True))
    cut = [word_hits.without(text, max(one, key=lambda span: one[span])) for text, one in both]
    with torch.no_grad():
        points = model.image_points(images)
        drop = model.space.pairwise(points, model.encode_text(texts)) - model.space.pairwise(
            points, model.encode_text(cut)
        )
    return {
        "word_hits": torch.tensor([word_hits.hit(text, one) for text, one in both]),
        "word_energy": torch.tensor([word_hits.energy(text, one) for text, one in both]),
        "word_drop": drop,
    }


def _boxes(some: Sequence[Question]) -> Tensor:
    return torch.tensor([one.box for one in some])


def _explainer(model: Model, method: str) -> Explainer:
    def explained(images: Tensor, texts: Sequence[str]) -> Relevance:
        return relevance(model, images, texts, method)

    return explained


def _random_relevance(model: Model, seed: int) -> Explainer:
    """Relevance that is drawn, with the shapes of the model's own."""
    draw = generator(seed, "explain", "random")
    own = _explainer(model, "grad_cam")

    def drawn(images: Tensor, texts: Sequence[str]) -> Relevance:
        like = own(images, texts)
        places, tokens = (torch.rand(one.shape, generator=draw).to(one) for one in (like.places, like.tokens))
        return Relevance(like.scores, places, tokens)

    return drawn
