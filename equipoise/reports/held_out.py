"""The test set as a report looks at it: every image, the captions that are ranked, and which of them match.

What matches is what the data say is true, where they know it (scenes); else the labelled pairs and copies of them, as
in retrieval. Similarities exist some rows at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from equipoise.data.source import is_judged
from equipoise.evaluation.copies import Matches, find_copies
from equipoise.evaluation.encoding import Encoded, at_least_float32, has_captions
from equipoise.evaluation.ranking import score_blocks


class HeldOut:
    """Points of images [N, d] and of captions [M, d]; `owners` [M] is the image that each caption came with."""

    def __init__(self, encoded: Encoded):
        self.source, self.model, self._chunk = encoded.source, encoded.model, encoded.settings.chunk
        self.captions, points = encoded.captions(encoded.per_image)
        self.images, self.texts = at_least_float32(encoded.images), at_least_float32(points)
        self.owners = self.captions.image_of_text.cpu()
        copies = find_copies(self.source, self.captions) if encoded.settings.copies == "matches" else None
        self._matches = Matches(self.owners, len(self.images), copies)

    def blocks(self, by_text: bool, chosen: Sequence[int] | None = None) -> Iterator[tuple[list[int], Tensor, Tensor]]:
        """Queries, their similarities to all candidates, and which of these match: [rows, candidates] each. The queries
        are texts, or images; all of them, or the `chosen`."""
        images, texts = self.images, self.texts
        numbers: Sequence[int] = range(len(texts if by_text else images))
        if chosen is not None:
            numbers = chosen
            images, texts = (images, texts[[*chosen]]) if by_text else (images[[*chosen]], texts)
        for rows, scores in score_blocks(images, texts, self.model.similarity, by_text, self._chunk):
            some = list(numbers[rows])
            yield some, scores, self.matching(some, by_text).to(scores.device)

    def matching(self, numbers: Sequence[int], by_text: bool) -> Tensor:
        """Bool [queries, candidates]: which candidates match these texts, or images."""
        if not is_judged(self.source):
            return self._matches.block(torch.as_tensor(numbers), by_text)
        if by_text:
            texts = [self.captions.texts[number] for number in numbers]
            return torch.from_numpy(self.source.relevance(range(len(self.images)), texts).T.copy())
        return torch.from_numpy(self.source.relevance(numbers, self.captions.texts).copy())


def held_out(encoded: Encoded) -> HeldOut | None:
    """None where captions are names of classes, the same for many: there is nothing to rank."""
    return HeldOut(encoded) if has_captions(encoded.source) else None


def evenly(total: int, most: int) -> list[int]:
    """At most `most` of `total` numbers, evenly spaced: the same ones each time."""
    return torch.linspace(0, total - 1, most).long().tolist() if total > most else list(range(total))
