"""What the codes of a code book stand for: the pictures and words that are most relevant to each, and how much it is
used. Chen et al. 2023 (FDT), §4.5 and App. D.

    a picture   by Eq. 4, its best patch
    a word      by <q, c> of its tokens, without pooling; the largest over all captions and places it occurs at
    used        with at least a thousandth of an even share of all shares, as `codes/dead` of the log has it

A picture that occurs twice, or a word, counts once. Samples stream by; only the best few of every code are kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b

import torch
from torch import Tensor

from equipoise.analysis.codebook.topk import Best
from equipoise.data.source import Source, has_features
from equipoise.encoders.encoder import Encoder
from equipoise.io.progress import Progress
from equipoise.models.compatibility import require_compatible
from equipoise.models.model import Model, evaluating
from equipoise.readouts import CodeBook, CodeBookReadout
from equipoise.readouts.codebook_state import DEAD
from equipoise.types import Features, UserError

IMAGES = 64  # at once
SCORES = 2**24  # of words and codes at once


class TowerUsage:
    """One half of a model with codes: inputs to relevance and shares."""

    def __init__(self, encoder: Encoder, readout: CodeBookReadout, book: CodeBook):
        self.encoder, self.readout, self.book = encoder, readout, book

    def queries(self, features: Features) -> tuple[Tensor, Tensor]:
        return self.readout.queries(features, self.book)

    def relevance(self, features: Features) -> Tensor:
        return self.readout.relevance(features, self.book)


def towers(model: Model) -> tuple[TowerUsage, TowerUsage]:
    """Code books of images and of texts; raises UserError where the model has none."""
    image, text = model.image_readout, model.text_readout
    if not (isinstance(image, CodeBookReadout) and isinstance(text, CodeBookReadout)):
        raise UserError(
            "this model has no codes to look at; train one with readout.name = code_book, such as the recipe fdt-scenes"
        )
    assert isinstance(model.shared, CodeBook)
    return TowerUsage(model.image_encoder, image, model.shared), TowerUsage(model.text_encoder, text, model.shared)


@dataclass
class Usage:
    """What a pass over samples finds of every code; `labels` [N, V] bool, where something is known of the samples."""

    best: Best
    labels: Tensor | None = None
    samples: int = 0
    shares: Tensor = field(init=False)  # [C] summed over samples
    fires: Tensor = field(init=False)  # [C] samples with a share
    hits: Tensor = field(init=False)  # [C, V] shares summed over the samples that have a label

    def __post_init__(self) -> None:
        codes = len(self.best.items)
        self.shares, self.fires = torch.zeros(codes, dtype=torch.float64), torch.zeros(codes, dtype=torch.long)
        self.hits = torch.zeros(codes, 0 if self.labels is None else self.labels.shape[1], dtype=torch.float64)

    def add(self, items: Tensor, relevance: Tensor, shares: Tensor) -> None:
        self.best.add(items, relevance)
        shares = shares.detach().cpu().double()
        self.samples += len(items)
        self.shares += shares.sum(0)
        self.fires += (shares > 0).sum(0)
        if self.labels is not None:
            self.hits += shares.T @ self.labels[items].double()


def require_pictures(model: Model, source: Source) -> None:
    if has_features(source):
        raise UserError("this data holds features, of which nothing can be shown; give the pictures they were made of")
    require_compatible(model, source)


@torch.no_grad()
def use_of_images(model: Model, source: Source, k: int, labels: Tensor | None = None) -> Usage:
    """The images are known by their numbers in the source; of equal ones, by the first."""
    tower, _ = towers(model)
    require_pictures(model, source)
    usage, first = Usage(Best(len(tower.book.codes), k), labels), dict[bytes, int]()
    with evaluating(model), Progress(len(source), "pictures") as progress:
        for batch in _parts(len(source), IMAGES):
            pixels = source.images(batch, model.preprocess.side, model.device)
            digests = [blake2b(picture.tobytes(), digest_size=16).digest() for picture in pixels.cpu().numpy()]
            items = [first.setdefault(digest, index) for digest, index in zip(digests, batch, strict=True)]
            relevance = tower.relevance(_read_pixels(model, pixels))
            usage.add(torch.tensor(items), relevance, tower.readout.shares(relevance))
            progress.update(batch.stop)
    return usage


def _read_pixels(model: Model, pixels: Tensor) -> Features:
    features: Features = model.image_encoder(model.image_encoder.prepare(pixels, model.preprocess).to(model.device))
    return features


@dataclass(frozen=True)
class TextUse:
    usage: Usage  # of the captions, by their numbers
    words: list[str]
    best: Best  # of the words, by their numbers


@torch.no_grad()
def use_of_texts(model: Model, captions: Sequence[str], k: int, words: int, labels: Tensor | None = None) -> TextUse:
    """The `k` most relevant captions and the `words` most relevant words of every code."""
    _, tower = towers(model)
    codes = len(tower.book.codes)
    found = TextUse(Usage(Best(codes, k), labels), [], Best(codes, words))
    known: dict[str, int] = {}
    with evaluating(model), Progress(len(captions), "captions") as progress:
        for batch in _parts(len(captions), max(1, SCORES // (model.tokens.context * codes))):
            read = read_texts(model, captions[batch.start : batch.stop])
            relevance = tower.relevance(read.features)
            found.usage.add(torch.tensor(batch), relevance, tower.readout.shares(relevance))
            numbers = torch.tensor([known.setdefault(word, len(known)) for word in read.words])
            found.best.add(numbers, read.of_words(tower))
            progress.update(batch.stop)
    found.words.extend(known)
    return found


@dataclass(frozen=True)
class TokenRelevance:
    """Texts as the text tower read them, and the words that its tokens are part of."""

    features: Features
    words: list[str]
    places: tuple[list[int], list[int]]  # text and token of each word

    def of_words(self, tower: TowerUsage) -> Tensor:
        """Relevance of every code to every token that is part of a word [T, C]."""
        queries, _ = tower.queries(self.features)
        return queries[self.places] @ tower.book.codes.T


def read_texts(model: Model, texts: Sequence[str]) -> TokenRelevance:
    ids, mask = model.text_encoder.prepare(texts, None, model.tokens)
    features: Features = model.text_encoder(ids.to(model.device), mask.to(model.device))
    assert features.tokens is not None
    skipped = ids.shape[1] - features.tokens.shape[1]  # a class token at the start is no word
    tokens = [
        (word, row, place - skipped)
        for row, words in enumerate(model.tokens.words(texts))
        for place, word in enumerate(words)
        if word is not None and place >= skipped
    ]
    return TokenRelevance(
        features, [word for word, *_ in tokens], ([row for _, row, _ in tokens], [at for *_, at in tokens])
    )


def used(images: Usage, texts: Usage) -> list[int]:
    """The codes with a share worth the name, the most used first."""
    both = images.shares / max(1, images.samples) + texts.shares / max(1, texts.samples)
    order = both.argsort(descending=True, stable=True)
    return order[both[order] >= DEAD * both.sum() / len(both)].tolist()


def _parts(total: int, each: int) -> Iterator[range]:
    for start in range(0, total, each):
        yield range(start, min(start + each, total))
