"""`equipoise codes`: what the codes of a model stand for, as a page to browse."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from equipoise.analysis.codebook.heatmap import Heat, coloured
from equipoise.analysis.codebook.purity import TOP, Purest, chance, image_labels, purity, text_labels
from equipoise.analysis.codebook.usage import (
    TextUse,
    Usage,
    require_pictures,
    use_of_images,
    use_of_texts,
    used,
)
from equipoise.data.source import Pair, Source
from equipoise.evaluation.codes import agreement_of_codes, random_book
from equipoise.evaluation.metrics import percent
from equipoise.io.numbers import hand_over
from equipoise.io.progress import Progress
from equipoise.models.model import Model
from equipoise.readouts import CodeBook
from equipoise.reports.codes_page import strip, write_codes
from equipoise.types import UserError
from equipoise.workflows.subject import Subject

PICTURE = 112  # pixels on a side, as shown
TOGETHER = 32  # codes whose pictures are in memory at once


@dataclass(frozen=True)
class CodebookRequest:
    images: int = 5  # shown of a code
    words: int = 8
    stride: int = 0  # pixels between patches of the heat maps; 0: as the model has them
    most: int = 0  # codes shown; 0: all that are used

    def __post_init__(self) -> None:
        for name, least in (("images", 1), ("words", 1), ("stride", 0), ("most", 0)):
            if getattr(self, name) < least:
                raise UserError(f"--{name} must be at least {least}, not {getattr(self, name)}")


def show_codes(subject: Subject, settings: CodebookRequest, folder: Path, command: str) -> None:
    """Read all pictures and captions, write the page and print a conclusion."""
    model = subject.model()
    heat = Heat(model, settings.stride)  # raises UserError before the long work if heat maps cannot be drawn
    source = subject.source()
    require_pictures(model, source)
    pairs = [source.pair(index) for index in range(len(source))]
    captions = all_captions(pairs)
    labels = image_labels(pairs)
    k = max(settings.images, 0 if labels is None else TOP)
    images = use_of_images(model, source, k, labels)
    texts = use_of_texts(model, captions, k, settings.words, None if labels is None else text_labels(captions))
    agreement, agreed = _agreement(model, source)
    codes = sorted(used(images, texts.usage), key=lambda code: -float(agreement[code]))  # of equals the most used
    codes = codes[: settings.most or None]
    found = [{**_found(code, images, texts, pairs, settings), "agreement": float(agreement[code])} for code in codes]
    summary = _purity_of_all(found, images, texts.usage) if labels is not None else {}
    conclusion = sentence(found, images, texts.usage, summary, agreed)
    facts = {"command": command, **subject.facts(), **asdict(settings), "images_seen": images.samples,
             "texts_seen": texts.usage.samples, "purity": summary, "agreement": agreed}  # fmt: skip
    best = {code: [item for item, _ in images.best.of(code)[: settings.images]] for code in codes}
    title = f"What the codes of {subject.path.resolve().name} stand for"
    hand_over({"finding": conclusion, **facts, "codes": len(found), "folder": str(folder)})
    path = write_codes(folder, title, conclusion, facts, found, _strips(heat, source, best))
    print(f"{conclusion}\n\nThe page is {path}, the numbers are in codes.json")


def _agreement(model: Model, source: Source) -> tuple[Tensor, dict[str, float]]:
    """Of every code [C]; and means over the used codes, of the book and of random ones in its place."""
    assert isinstance(model.shared, CodeBook)
    books = {"codes": model.shared, "random": random_book(model.shared)}
    found = {name: agreement_of_codes(model, source, book) for name, book in books.items()}
    means = {name: float(one.by_code[one.used].mean()) for name, one in found.items()}
    return found["codes"].by_code, {**means, "chance": found["codes"].chance}


def all_captions(pairs: Sequence[Pair]) -> list[str]:
    captions = [caption for pair in pairs for caption in pair.captions]
    if not captions:
        raise UserError("this data has no captions, so no words can be found; give data with captions")
    return captions


def _found(
    code: int, images: Usage, texts: TextUse, pairs: Sequence[Pair], settings: CodebookRequest
) -> dict[str, Any]:
    """All numbers of a code, JSON-able."""
    towers = {"image": images, "text": texts.usage}
    return {
        "code": code,
        **{f"share_{name}": float(use.shares[code]) / use.samples for name, use in towers.items()},
        **{f"fires_{name}": int(use.fires[code]) for name, use in towers.items()},
        "words": [{"word": texts.words[item], "relevance": value} for item, value in texts.best.of(code)],
        "images": [
            {"key": pairs[item].key, "relevance": value} for item, value in images.best.of(code)[: settings.images]
        ],
        "purity": {
            name: {kind: asdict(one) for kind, one in purity(use, code).items()}
            for name, use in towers.items()
            if use.labels is not None
        },
    }


def _strips(heat: Heat, source: Source, best: dict[int, list[int]]) -> Iterator[tuple[int, np.ndarray]]:
    """The pictures of every code with their heat maps, a few codes at a time."""
    codes = list(best)
    with Progress(len(codes), "heat maps") as progress:
        for start in range(0, len(codes), TOGETHER):
            some = codes[start : start + TOGETHER]
            needed = sorted({item for code in some for item in best[code]})
            place = {item: number for number, item in enumerate(needed)}
            queries = heat.queries(source, needed)
            pictures = source.images(needed, PICTURE).permute(0, 2, 3, 1).cpu().numpy()
            for code in some:
                chosen = [place[item] for item in best[code]]
                maps = heat.maps(queries[chosen], code, PICTURE)
                yield code, strip(pictures[chosen], coloured(pictures[chosen], maps))
            progress.update(start + len(some))


def _purity_of_all(found: Sequence[dict[str, Any]], images: Usage, texts: Usage) -> dict[str, dict[str, float]]:
    """Means over the used codes of share and base, and what samples drawn at random would give above the base."""
    summary = {}
    for name, usage in (("image", images), ("text", texts)):
        assert usage.labels is not None
        ones = {kind: [Purest(**code["purity"][name][kind]) for code in found if kind in code["purity"][name]]
                for kind in ("top", "weighted")}  # fmt: skip
        means = {
            f"{kind}_{part}": sum(getattr(one, part) for one in some) / max(1, len(some))
            for kind, some in ones.items()
            for part in ("share", "base")
        }
        summary[name] = {**means, "top_excess_by_chance": chance(usage.labels, TOP)}
    return summary


def sentence(
    found: Sequence[dict[str, Any]],
    images: Usage,
    texts: Usage,
    summary: dict[str, dict[str, float]],
    agreed: dict[str, float],
) -> str:
    total = len(images.shares)
    text = (
        f"{len(found)} of {total} codes are shown. An image is made of {images.fires.sum() / images.samples:.1f}, "
        f"a text of {texts.fires.sum() / texts.samples:.1f} of them, on average. "
        f"Of the tenth of images most relevant to a code, {percent(agreed['codes'])} have a text that is too "
        f"(random codes {percent(agreed['random'])}, guessing {percent(agreed['chance'])})."
    )
    for name, one in summary.items():
        text += (
            f" Of the {TOP} {name}s most relevant to a code, {percent(one['top_share'])} share its purest attribute, "
            f"{percent(one['top_share'] - one['top_base'])} above all {name}s; drawn at random they would be "
            f"{percent(max(0.0, one['top_excess_by_chance']))} above them."
        )
    return text
