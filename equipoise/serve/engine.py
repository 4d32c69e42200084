"""A model with the index of its pictures: queries made of texts and pictures, and what is closest to them.

    q = project(Σ pictures + Σ texts - Σ texts without)        one text or one picture alone is its own point

Points of pictures and of texts lie in one space, so that they can be added (Couairon et al. 2022 call it embedding
arithmetic); the sum is projected back onto the space. All of it runs in the model's thread (`worker.py`).
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from PIL import Image
from torch import Tensor

from equipoise.analysis.explain.relevance import AUTO, chosen_method, require_words
from equipoise.evaluation.encoding import fill
from equipoise.evaluation.zeroshot import class_scores
from equipoise.index.index import NOTHING, Index
from equipoise.models.explanation import Explanation
from equipoise.models.model import Model
from equipoise.serve.errors import Refused
from equipoise.spaces import TokenSets
from equipoise.types import UserError

DRAWN = 8  # points of a sample
SHOWN = 40  # letters of a class's name in a sentence


@dataclass(frozen=True)
class Query:
    """What is looked for; at least one text or picture."""

    texts: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    pictures: tuple[Image.Image, ...] = ()
    rows: tuple[int, ...] = ()  # pictures of the index
    k: int = 24
    where: str | None = None  # a filter on side data

    @property
    def parts(self) -> int:
        return len(self.texts) + len(self.without) + len(self.pictures) + len(self.rows)


@dataclass(frozen=True)
class Hit:
    row: int
    score: float


@dataclass(frozen=True)
class Engine:
    name: str  # of the model, for people
    version: str  # its fingerprint
    model: Model
    index: Index

    @property
    def explains(self) -> bool:
        """Whether the model's towers are among those that explanations know."""
        try:
            chosen_method(self.model, AUTO)
            require_words(self.model)
        except UserError:
            return False
        return True

    def sample(self, count: int) -> list[int]:
        """Some rows, always the same: those around a few points drawn at random."""
        drawn = torch.randn(DRAWN, self.model.space.dim, generator=torch.Generator().manual_seed(0))
        found = self.index.search(self.model.space.project(drawn), count).rows.T.flatten().tolist()
        return list(dict.fromkeys(row for row in found if row != NOTHING))[:count]

    def search(self, queries: Sequence[Query]) -> list[list[Hit]]:
        """What is closest to each query; queries with the same filter are answered at once."""
        points = self._points(queries)
        hits: list[list[Hit]] = [[] for _ in queries]
        for where in dict.fromkeys(query.where for query in queries):
            some = [place for place, query in enumerate(queries) if query.where == where]
            found = self._found(points[some], max(queries[place].k for place in some), where)
            for place, scores, rows in zip(some, *found, strict=True):
                pairs = zip(rows, scores, strict=True)
                hits[place] = [Hit(row, score) for row, score in pairs if row != NOTHING][: queries[place].k]
        return hits

    def _found(self, points: Tensor, k: int, where: str | None) -> tuple[list[list[float]], list[list[int]]]:
        found = self.index.search(points, k, where)
        return found.scores.tolist(), found.rows.tolist()

    def _points(self, queries: Sequence[Query]) -> Tensor:
        """[Q, d]: all texts are encoded at once, and all pictures."""
        for query in queries:
            self._require_sum(query)
        texts = list(dict.fromkeys(text for query in queries for text in (*query.texts, *query.without)))
        pictures = [picture for query in queries for picture in query.pictures]
        self.model.tokens(
            texts, ["this search"] * len(texts), strict=True
        )  # a text that is cut would find other things
        words = dict(zip(texts, self.model.encode_text(texts).cpu().float() if texts else (), strict=True))
        seen = iter(self.model.encode_image(pictures).cpu().float() if pictures else ())
        return torch.stack([self._sum(query, words, [next(seen) for _ in query.pictures]) for query in queries])

    def _require_sum(self, query: Query) -> None:
        if not query.texts and not query.pictures and not query.rows:
            raise Refused(400, "there is nothing to search for; give a text or a picture")
        if query.parts > 1 and isinstance(self.model.space, TokenSets):
            raise Refused(400, "this model reads texts and pictures as sets of tokens, which cannot be added; give one")

    def _sum(self, query: Query, words: dict[str, Tensor], seen: Sequence[Tensor]) -> Tensor:
        added = [*(words[text] for text in query.texts), *seen, *(self._of_row(row) for row in query.rows)]
        if query.parts == 1:
            return added[0]
        total = torch.stack(added).sum(0) - sum(words[text] for text in query.without)
        return self.model.space.project(total[None])[0]

    def _of_row(self, row: int) -> Tensor:
        return self.index.points([row])[0]

    def classify(self, picture: Image.Image, classes: Sequence[str], template: str) -> list[tuple[str, float, float]]:
        """The classes with probability and similarity, the likeliest first."""
        prompts = fill([template], classes)
        texts = [text for several in prompts for text in several]
        self.model.tokens(texts, [f'the class "{name[:SHOWN]}"' for name in classes], strict=True)
        points = self.model.encode_text(texts)[:, None]
        (scores,) = class_scores(self.model.encode_image([picture]), points, self.model.space)
        shares = (self.model.log_scale.detach().exp() * scores).softmax(1)[0]
        order = scores[0].argsort(descending=True, stable=True).tolist()
        return [(classes[place], float(shares[place]), float(scores[0, place])) for place in order]

    def explain(self, picture: Image.Image, text: str) -> Explanation:
        return self.model.explain(picture, text)

    def picture_of(self, row: int) -> Image.Image:
        """The small picture that the index has of a row."""
        data = self.index.thumbnail(row)
        if data is None:
            raise Refused(404, "this record has no picture")
        try:
            return Image.open(io.BytesIO(data)).convert("RGB")
        except OSError as error:
            raise UserError(f"the picture of this record is damaged ({error}); make the index again") from None
