"""The code book of a model as a page shows it: each code with the words and pictures that are most relevant to it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from equipoise.analysis.codebook.usage import TextUse, Usage, towers, use_of_images, use_of_texts, used
from equipoise.data.remap import subset
from equipoise.data.source import Source
from equipoise.models.model import Model
from equipoise.serve.errors import Refused
from equipoise.serve.memory_index import jpeg
from equipoise.workflows.code_words import codes_of
from equipoise.workflows.codes import all_captions

PICTURES, WORDS = 6, 8  # of a code
FOUND = 12  # codes of a word
PAIRS = 2000  # that are read


@dataclass(frozen=True)
class Uses:
    images: Usage
    texts: TextUse
    codes: list[int]  # that are used, the most used first


class CodePages:
    """Codes of a model on pairs of a source, which are read when the first visitor asks."""

    def __init__(self, model: Model, source: Callable[[], Source]):
        towers(model)  # raises UserError where it has no codes
        self.model, self._make = model, source
        self._reading, self._drawing = threading.Lock(), threading.Lock()

    @cached_property
    def source(self) -> Source:
        whole = self._make()
        return whole if len(whole) <= PAIRS else subset(whole, range(PAIRS))

    @cached_property
    def uses(self) -> Uses:
        captions = all_captions([self.source.pair(index) for index in range(len(self.source))])
        images = use_of_images(self.model, self.source, PICTURES)
        texts = use_of_texts(self.model, captions, 1, WORDS)
        return Uses(images, texts, used(images, texts.usage))

    def some(self, start: int, count: int) -> tuple[list[dict[str, Any]], int]:
        """Codes from a place on, the most used first; and how many there are."""
        with self._reading:
            uses = self.uses
        return [self._code(code, uses) for code in uses.codes[start : start + count]], len(uses.codes)

    def of_word(self, word: str) -> list[dict[str, Any]]:
        """Codes that fire for a word, those first that fire more than usual."""
        with self._reading:
            uses = self.uses
        found = codes_of(self.model, word, uses.texts)[:FOUND]
        return [{**self._code(one["code"], uses), "share": one["share"], "usual": one["usual_share"]} for one in found]

    def picture(self, item: int) -> bytes:
        if not 0 <= item < len(self.source):
            raise Refused(404, f"there is no picture {item}")
        with self._drawing:  # sources are made for one reader
            found = jpeg(self.source, item)
        if found is None:
            raise Refused(404, "this record has no picture")
        return found

    def _code(self, code: int, uses: Uses) -> dict[str, Any]:
        return {
            "code": code,
            "words": [uses.texts.words[item] for item, _ in uses.texts.best.of(code)],
            "pictures": [item for item, _ in uses.images.best.of(code)],
            "share_image": float(uses.images.shares[code]) / max(1, uses.images.samples),
            "share_text": float(uses.texts.usage.shares[code]) / max(1, uses.texts.usage.samples),
        }
