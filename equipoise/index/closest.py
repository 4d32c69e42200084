"""The closest of many points, a tile at a time: never more than one tile of similarities.

closest = Closest(space, queries, k)
for rows, points in tiles:
    closest.add(rows, points)
found = closest.found()
"""

from __future__ import annotations

import torch
from torch import Tensor

from equipoise.index.index import NOTHING, Found
from equipoise.spaces import Space

QUERIES_AT_ONCE = 256


class Closest:
    """The k rows closest to each query [Q, d] of all that were added."""

    def __init__(self, space: Space, queries: Tensor, k: int):
        self.space, self.queries, self.k = space, queries, k
        self.scores = torch.full((len(queries), k), -torch.inf)
        self.rows = torch.full((len(queries), k), NOTHING, dtype=torch.long)

    @torch.no_grad()
    def add(self, rows: Tensor, points: Tensor) -> None:
        """Points [T, d] of these rows [T], for all queries."""
        for start in range(0, len(self.queries) if len(rows) else 0, QUERIES_AT_ONCE):
            part = slice(start, start + QUERIES_AT_ONCE)
            scores, places = self.space.similarity(self.queries[part], points).topk(min(self.k, len(rows)), dim=1)
            self._merge(part, scores, rows[places])

    @torch.no_grad()
    def add_own(self, query: int, rows: Tensor, points: Tensor) -> None:
        """Points of these rows for one query: candidates, whose order is not known yet."""
        if len(rows):
            part = slice(query, query + 1)
            scores, places = self.space.similarity(self.queries[part], points).topk(min(self.k, len(rows)), dim=1)
            self._merge(part, scores, rows[places])

    def alone(self, query: int) -> Closest:
        """The same for one query, with nothing added yet; `add_found` brings back what it found."""
        return Closest(self.space, self.queries[query : query + 1], self.k)

    def add_found(self, query: int, found: Found) -> None:
        self._merge(slice(query, query + 1), found.scores, found.rows)

    def _merge(self, part: slice, scores: Tensor, rows: Tensor) -> None:
        both = torch.cat([self.scores[part], scores.float()], 1), torch.cat([self.rows[part], rows], 1)
        self.scores[part], places = both[0].topk(self.k, dim=1)
        self.rows[part] = both[1].gather(1, places)

    def found(self) -> Found:
        return Found(self.scores, self.rows)
