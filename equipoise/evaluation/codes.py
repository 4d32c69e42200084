"""Whether the codes of a code book mean the same to both towers, beside random codes in their place.

Chen et al. 2023 (FDT), §4.5, show it in pictures; purity does not tell learned codes from random ones, for the maps of
tokens do most of its work. What both towers must share to be compared at all does:

    agreement   of the k pairs whose images are most relevant to a code, the share whose texts are among its k most
                relevant; k is a tenth of the pairs; mean over the codes that are used. Chance: k/N
    overlap     |A ∩ B| / |A ∪ B|, A and B the codes active in an image and in its text; mean over pairs.
                Chance: the same of images and other pairs' texts
    pointing    a code is asked for by the name of a shape (the one whose share in its prompts exceeds that in all
                shapes' prompts the most), and points at the patch that is most relevant to it: the share of pictures of
                several things, one of them of that shape, in which that patch is within its box. Chance: the share of
                the patches that are. Of scenes, whose truth is known

Each has a twin under `..._random`: the codes are replaced by draws of N(0, σ²), σ the root mean square of the learned
ones, and all else is left as it is. Relevance and shares are those of `readouts/code_book.py`. The first 1,000 pairs
are looked at, so that [N, C] numbers are bounded.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from math import isqrt
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor

from equipoise.data.rng import generator
from equipoise.data.scenes.annotation import has_scene
from equipoise.data.source import Pair, Source, has_features, is_labelled
from equipoise.evaluation.encoding import Encoded, fill, has_captions
from equipoise.evaluation.evaluator import EvalResult, Evaluator
from equipoise.evaluation.metrics import Metric
from equipoise.models.model import Model, evaluating
from equipoise.readouts import CodeBook, CodeBookReadout
from equipoise.readouts.codebook_state import DEAD
from equipoise.types import Features

PAIRS = 1000  # looked at
BATCH = 64
TENTH = 10
SHIFTS = (1, 2, 3)  # which other pair's text an image is held against, for chance

T = TypeVar("T")

MEANINGS = {
    "agreement": ("agreement of codes", "Of the tenth of pairs whose images suit a code best, those whose texts do."),
    "overlap": ("overlap of codes", "Codes active in both an image and its text, of those active in either."),
    "pointing": ("pointing of codes", "Pictures in which the code of a shape points at the thing of that shape."),
}
METRICS = {
    **{f"codes_{name}": Metric(short, meaning) for name, (short, meaning) in MEANINGS.items()},
    **{
        f"codes_{name}_random": Metric(f"{short}, random", f"{meaning[:-1]}, with random codes.")
        for name, (short, meaning) in MEANINGS.items()
    },
}


class Codes(Evaluator):
    """Compares what the codes of a code book mean to images and to texts, and with random codes."""

    task = "zeroshot_retrieval"
    metrics = METRICS

    def applies(self, source: Source) -> bool:
        return has_captions(source) and not has_features(source)

    def suits(self, model: Model) -> bool:
        """Whether it has codes, and all of them here: a sharded model is evaluated by its points alone."""
        whole = isinstance(model.shared, CodeBook) and not hasattr(model.shared.codes, "placements")
        return whole and isinstance(model.image_readout, CodeBookReadout)

    def __call__(self, encoded: Encoded) -> EvalResult:
        model, source = encoded.model, encoded.source
        numbers = captioned(source)
        if len(numbers) < 2:
            return EvalResult({}, {})
        assert isinstance(model.shared, CodeBook)
        values, chances = dict[str, float](), dict[str, float]()
        for ending, book in (("", model.shared), ("_random", random_book(model.shared))):
            found = _measured(model, source, numbers, book)
            values |= {f"codes_{name}{ending}": value for name, (value, _) in found.items()}
            chances |= {f"codes_{name}{ending}": chance for name, (_, chance) in found.items()}
        return EvalResult(values, chances)


class CodeAgreement(NamedTuple):
    by_code: Tensor  # [C]
    used: Tensor  # numbers of the codes that are used [U]
    chance: float


def captioned(source: Source) -> list[int]:
    """The first pairs that have a caption."""
    return list(islice((index for index in range(len(source)) if source.pair(index).captions), PAIRS))


@torch.no_grad()
def agreement_of_codes(model: Model, source: Source, book: CodeBook) -> CodeAgreement:
    """Agreement of the codes of the model's book, or of another one, on the first pairs."""
    images, texts = _both(model, source, captioned(source), book)
    return CodeAgreement(
        agreement_by_code(images.relevance, texts.relevance),
        used(images.shares, texts.shares),
        _most(images.relevance) / len(images.relevance),
    )


def random_book(book: CodeBook, seed: int = 0) -> CodeBook:
    """Codes of N(0, σ²) in place of the learned ones, σ their root mean square."""
    codes = book.codes.detach()
    drawn = torch.randn(codes.shape, generator=generator(seed, "random codes"), dtype=torch.float64).to(codes)
    made = book.like()
    with torch.no_grad():
        made.codes.copy_(drawn * codes.square().mean().sqrt())
    return made


class _Read(NamedTuple):
    relevance: Tensor  # [N, C]
    shares: Tensor  # [N, C]


@torch.no_grad()
def _measured(model: Model, source: Source, numbers: Sequence[int], book: CodeBook) -> dict[str, tuple[float, float]]:
    """Value and chance by name."""
    pairs = [source.pair(index) for index in numbers]
    images, texts = _both(model, source, numbers, book)
    found = {
        "agreement": agreement(images.relevance, texts.relevance, used(images.shares, texts.shares)),
        "overlap": overlap(images.shares > 0, texts.shares > 0),
    }
    if is_labelled(source) and all(map(has_scene, pairs)):
        prompts = fill(source.templates, source.class_names)
        read = _read(model.text_readout, (_texts(model, several) for several in prompts), book)
        asked = codes_of_names(read.shares.view(len(prompts), -1, read.shares.shape[1]).mean(1))
        names = dict(zip(source.class_names, asked.tolist(), strict=True))
        if pointed := _pointing(model, source, numbers, pairs, names, book):
            found["pointing"] = pointed
    return found


def _both(model: Model, source: Source, numbers: Sequence[int], book: CodeBook) -> tuple[_Read, _Read]:
    """Images, and the first caption of each."""
    images = _read(model.image_readout, (_pictures(model, source, some) for some in _parts(numbers)), book)
    captions = [source.pair(index).captions[0] for index in numbers]
    return images, _read(model.text_readout, (_texts(model, some) for some in _parts(captions)), book)


def used(images: Tensor, texts: Tensor) -> Tensor:
    """Numbers of the codes with a share worth the name [U], of shares [N, C] and [N, C]."""
    both = images.double().mean(0) + texts.double().mean(0)
    return (both >= DEAD * both.sum() / len(both)).nonzero()[:, 0]


def agreement(images: Tensor, texts: Tensor, codes: Tensor) -> tuple[float, float]:
    """Mean agreement of these codes by relevance [N, C] and [N, C], and what guessing gives."""
    return float(agreement_by_code(images, texts)[codes].mean()), _most(images) / len(images)


def agreement_by_code(images: Tensor, texts: Tensor) -> Tensor:
    """[C]: of each code's k most relevant images, the share that belongs to its k most relevant texts."""
    k = _most(images)
    tops = [torch.zeros_like(side, dtype=torch.bool).scatter_(0, side.topk(k, 0).indices, True)
            for side in (images, texts)]  # fmt: skip
    return (tops[0] & tops[1]).double().sum(0) / k


def _most(samples: Tensor) -> int:
    """k."""
    return max(1, len(samples) // TENTH)


def overlap(images: Tensor, texts: Tensor) -> tuple[float, float]:
    """Mean overlap of the active codes [N, C] of pairs, and that of images with other pairs' texts."""
    own = _jaccard(images, texts)
    others = [_jaccard(images, texts.roll(shift, 0)) for shift in SHIFTS if shift % len(texts)]
    return float(own.mean()), float(torch.stack(others).mean())


def _jaccard(first: Tensor, second: Tensor) -> Tensor:
    """[N] of bool [N, C] and [N, C]; every sample has a code."""
    return (first & second).double().sum(1) / (first | second).double().sum(1).clamp(min=1)


def codes_of_names(shares: Tensor) -> Tensor:
    """The code that stands out for each of V names [V], by its shares in the names' prompts [V, C]."""
    shares = shares.double()
    return (shares - shares.mean(0)).argmax(1)


def _pointing(
    model: Model, source: Source, numbers: Sequence[int], pairs: Sequence[Pair], names: dict[str, int], book: CodeBook
) -> tuple[float, float] | None:
    """None where no picture has several things, one of them alone of its shape, or patches are no square."""
    hits, guesses = list[float](), list[float]()
    asked = [_named_once(pair, names) for pair in pairs]
    chosen = [place for place, some in enumerate(asked) if some]
    for some in _parts(chosen):
        readout = model.image_readout
        assert isinstance(readout, CodeBookReadout)
        queries, _ = readout.queries(_pictures(model, source, [numbers[place] for place in some]), book)
        side = isqrt(queries.shape[1])
        if side * side != queries.shape[1]:
            return None
        for row, place in zip(queries, some, strict=True):
            for shape, box in asked[place]:
                inside = patches_inside(box, side).to(row.device)
                hits.append(float(inside[(row @ book.codes[names[shape]]).argmax()]))
                guesses.append(float(inside.double().mean()))
    return (sum(hits) / len(hits), sum(guesses) / len(guesses)) if hits else None


def _named_once(pair: Pair, names: dict[str, int]) -> list[tuple[str, tuple[float, ...]]]:
    """Shapes and boxes of the things of a picture of several that alone have their shape."""
    shapes = [thing["shape"] for thing in pair.truth["scene"]["things"]]
    if len(shapes) < 2:
        return []
    return [
        (shape, tuple(box))
        for shape, box in zip(shapes, pair.boxes, strict=True)
        if shapes.count(shape) == 1 and shape in names
    ]


def patches_inside(box: Sequence[float], side: int) -> Tensor:
    """Bool [side²]: whether the middle of each patch, row by row, lies within the box x0, y0, x1, y1 in [0, 1]."""
    middle = (torch.arange(side) + 0.5) / side
    across = (box[0] <= middle) & (middle <= box[2])
    down = (box[1] <= middle) & (middle <= box[3])
    return (down[:, None] & across).flatten()


def _read(readout: torch.nn.Module, batches: Iterable[Features], book: CodeBook) -> _Read:
    assert isinstance(readout, CodeBookReadout)
    relevance = torch.cat([readout.relevance(features, book) for features in batches])
    return _Read(relevance, readout.shares(relevance))


def _pictures(model: Model, source: Source, numbers: Sequence[int]) -> Features:
    pixels = source.images(numbers, model.preprocess.side, model.device)
    with evaluating(model):
        features: Features = model.image_encoder(model.image_encoder.prepare(pixels, model.preprocess))
    return features


def _texts(model: Model, texts: Sequence[str]) -> Features:
    ids, mask = model.text_encoder.prepare(list(texts), None, model.tokens)
    with evaluating(model):
        features: Features = model.text_encoder(ids.to(model.device), mask.to(model.device))
    return features


def _parts(items: Sequence[T]) -> list[Sequence[T]]:
    return [items[start : start + BATCH] for start in range(0, len(items), BATCH)]
