"""A caption of another record that fits a picture better than its own: what a suspect may be swapped for.

The served model compares the picture with captions that are likely right. It may have been trained on them, unlike the
judges of `equipoise clean`, so this is a proposal to a person and no evidence.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from equipoise.models.model import Model
from equipoise.serve.suspects import Suspects

CANDIDATES = 2000  # captions that are compared


@dataclass(frozen=True)
class BetterCaption:
    row: int
    text: str
    by: float  # similarity above that of the suspect


class BetterCaptions:
    def __init__(self, model: Model, suspects: Suspects):
        self.model, self.suspects = model, suspects

    @cached_property
    def candidates(self) -> tuple[list[int], list[str], Tensor]:
        """Rows, texts and points [N, d], encoded when they are first asked for."""
        rows = self.suspects.likely_right(CANDIDATES)
        texts = [self.suspects.text(row) for row in rows]
        return rows, texts, self.model.encode_text(texts)

    @torch.no_grad()
    def of(self, row: int) -> BetterCaption | None:
        """The best of the candidates, of another record and with other words than the picture's own captions."""
        suspect, record = self.suspects.one(row), int(self.suspects.owners[row])
        rows, texts, points = self.candidates
        pixels = self.suspects.source.images([record], self.model.preprocess.side, self.model.device)
        picture = self.model.encode_image(pixels)
        own = float(self.model.similarity(picture, self.model.encode_text([suspect.text])))
        scores = self.model.similarity(picture, points)[0]
        known = {suspect.text, *suspect.others}
        for place in scores.argsort(descending=True).tolist():
            if float(scores[place]) <= own:
                return None
            if texts[place] not in known and int(self.suspects.owners[rows[place]]) != record:
                return BetterCaption(rows[place], texts[place], float(scores[place]) - own)
        return None
