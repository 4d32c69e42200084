"""`equipoise codes --word`: which codes a word calls up, by the model's own reading of it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from equipoise.analysis.codebook.usage import TextUse, read_texts, towers, use_of_texts
from equipoise.evaluation.metrics import percent
from equipoise.io.atomic import write_text
from equipoise.io.numbers import hand_over
from equipoise.models.model import Model, evaluating
from equipoise.workflows.codes import CodebookRequest, all_captions
from equipoise.workflows.subject import Subject

LISTED = 15  # codes printed for a word


def find_words(subject: Subject, words: Sequence[str], settings: CodebookRequest, folder: Path) -> None:
    """Print and write the codes that fire for each word, read as a text of its own, beside their mean over captions."""
    model = subject.model()
    towers(model)
    source = subject.source()
    captions = all_captions([source.pair(index) for index in range(len(source))])
    texts = use_of_texts(model, captions, 1, settings.words)
    record = {word: codes_of(model, word, texts) for word in words}
    for word, codes in record.items():
        _print(word, codes)
    hand_over({**subject.facts(), "words": record})
    text = json.dumps({**subject.facts(), "words": record}, indent=1, ensure_ascii=False, allow_nan=False)
    write_text(folder / "words.json", text + "\n")
    print(f"\nThe numbers are in {folder / 'words.json'}")


@torch.no_grad()
def codes_of(model: Model, word: str, texts: TextUse) -> list[dict[str, Any]]:
    """The codes with a share in the word, those first whose share is the most above their mean over captions."""
    _, tower = towers(model)
    with evaluating(model):
        read = read_texts(model, [word])
        shares = tower.readout.weights(read.features, tower.book)[0].cpu().double()
        relevance = read.of_words(tower).amax(0).cpu().double() if read.words else torch.full_like(shares, 0.0)
    usual = texts.usage.shares / texts.usage.samples
    order = (shares - usual).argsort(descending=True, stable=True)
    return [
        {
            "code": code,
            "share": float(shares[code]),
            "usual_share": float(usual[code]),
            "relevance": float(relevance[code]),
            "words": [texts.words[item] for item, _ in texts.best.of(code)],
        }
        for code in order[shares[order] > 0].tolist()
    ]


def _print(word: str, codes: Sequence[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    rows = Table(title=Text(f"{len(codes)} codes fire for “{word}”"), title_justify="left")
    for name, justify in (("code", "right"), ("share", "right"), ("usual", "right"), ("relevance", "right")):
        rows.add_column(name, justify=justify)  # type: ignore[arg-type]
    rows.add_column("its top words")
    for one in codes[:LISTED]:
        numbers = percent(one["share"]), percent(one["usual_share"]), f"{one['relevance']:.3g}"
        rows.add_row(f"#{one['code']}", *numbers, Text(" ".join(one["words"])))
    Console().print(rows)
