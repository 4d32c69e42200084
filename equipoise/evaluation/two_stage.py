"""Retrieval in two stages: points choose the first k candidates of each query, the matching head ranks those again.

Li et al. 2021, "Align before Fuse" (ALBEF), §5 ("image-text retrieval"): k = 128 for Flickr30K and 256 for COCO.

    score = log-odds of the matching head    for the k candidates whose points are closest to the query's
            below all of these, in the order of the first stage, for the others

Both directions have candidates of their own; a pair that both propose is judged once. `pairs_scored` is what it costs:
passes of the fusion encoder, of at most k (images + texts), where judging all pairs takes images × texts. Points alone
are `retrieval`. The authors rank by one of the two logits whose difference the log-odds are. *Do not* compare with
retrieval of another k: with k as large as the gallery the first stage has no say any more.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from equipoise.data.source import Source, is_judged
from equipoise.evaluation.copies import Matches
from equipoise.evaluation.encoding import Captions, Encoded, at_least_float32, has_captions, image_inputs
from equipoise.evaluation.evaluator import EvalResult, Evaluator
from equipoise.evaluation.metrics import Metric
from equipoise.evaluation.ranking import numbers_of, ranks_of_blocks, retrieval_chance, score_blocks
from equipoise.evaluation.retrieval import METRICS, counted_copies
from equipoise.io.progress import Progress
from equipoise.models.matching import matching_head
from equipoise.models.model import Model
from equipoise.types import UserError

USUAL = 32  # k, or all candidates where there are fewer
PAIRS_AT_ONCE = 512
COSTS = {
    "rerank_k": Metric("candidates judged", "Candidates of each query that the matching head ranks again.", "cost"),
    "pairs_scored": Metric("pairs judged", "Pairs that passed the fusion encoder, for both directions.", "cost"),
}


class TwoStage(Evaluator):
    """Ranks the first `evaluation.rerank` candidates of each query again by the matching head, if a model has one."""

    task = "zeroshot_retrieval"
    cites = ("li2021albef",)
    metrics = {**METRICS, **COSTS}  # noqa: RUF012 (declared by the base)

    def applies(self, source: Source) -> bool:
        return has_captions(source)

    def suits(self, model: Model) -> bool:
        return matching_head(model.all_heads()) is not None

    def __call__(self, encoded: Encoded) -> EvalResult:
        source, settings = encoded.source, encoded.settings
        captions, points = encoded.captions(encoded.per_image)
        texts, images = at_least_float32(points), at_least_float32(encoded.images)
        stages = Stages(encoded, images, texts, wanted_k(settings.rerank, len(images), len(texts)))
        judged = stages.judge(captions)
        truth = source.relevance(range(len(source)), captions.texts) if is_judged(source) else None
        owners, copies = captions.image_of_text, counted_copies(source, captions, settings)
        matches = Matches(owners.to(images.device), len(images), copies)
        ranks = ranks_of_blocks(lambda by_text: stages.blocks(by_text, judged), matches, truth)
        numbers = numbers_of(ranks, judged=truth is not None)
        cost = {"rerank_k": float(stages.k), "pairs_scored": float(len(judged.pairs))}
        return EvalResult(numbers | cost, retrieval_chance(len(images), owners, truth, copies))


def wanted_k(rerank: int, images: int, texts: int) -> int:
    """k; raises UserError where a query has fewer candidates than are to be judged."""
    fewest = min(images, texts)
    if rerank > fewest:
        what = "images" if images <= texts else "texts"
        raise UserError(
            f"evaluation.rerank is {rerank}, but there are {fewest} {what} to rank; set it to {fewest} at most"
        )
    return rerank or min(USUAL, fewest)


@dataclass(frozen=True)
class Judged:
    """Pairs that were judged, as image · M + text, ascending, and their log-odds."""

    pairs: Tensor
    scores: Tensor


@dataclass(frozen=True)
class Stages:
    """The two stages of one evaluation: points of N images and of M texts, of which k are judged for each query."""

    encoded: Encoded
    images: Tensor
    texts: Tensor
    k: int

    def judge(self, captions: Captions) -> Judged:
        """Judge the candidates of both directions."""
        proposed = torch.cat([self._proposed(by_text).flatten() for by_text in (False, True)])
        pairs = proposed.unique()
        model, source, wide = self.encoded.model, self.encoded.source, len(self.texts)
        numbers = torch.stack([pairs // wide, pairs % wide], 1).cpu()
        with Progress(len(pairs), "pairs", lines=False) as progress:

            def some(batch: range) -> Tensor:
                progress.update(batch.stop)
                chosen = numbers[batch.start : batch.stop]
                (images, of_image), (texts, of_text) = (
                    column.unique(return_inverse=True) for column in chosen.unbind(1)
                )
                return model._match_prepared(
                    image_inputs(model, source, images.tolist()),
                    captions.inputs(model, texts.tolist()),
                    torch.stack([of_image, of_text], 1),
                )

            scores = model.encode_all(len(pairs), PAIRS_AT_ONCE, some)
        return Judged(pairs, scores)

    def blocks(self, by_text: bool, judged: Judged) -> Iterator[tuple[slice, Tensor]]:
        """Scores of some queries at a time to all candidates, in float64."""
        floor = judged.scores.double().min() - 1
        for rows, first in self._first(by_text):
            candidates = first.topk(self.k, 1).indices
            places = torch.searchsorted(judged.pairs, self._numbers(rows, candidates, by_text))
            others = first.double() - first.amax(1, keepdim=True) + floor  # in their order, below all that were judged
            yield rows, others.scatter(1, candidates, judged.scores.double()[places])

    def _proposed(self, by_text: bool) -> Tensor:
        """The pairs that one direction proposes [queries, k], as image · M + text."""
        found = [self._numbers(rows, s.topk(self.k, 1).indices, by_text) for rows, s in self._first(by_text)]
        return torch.cat(found)

    def _numbers(self, rows: slice, candidates: Tensor, by_text: bool) -> Tensor:
        queries = torch.arange(rows.start, rows.stop, device=candidates.device)[:, None]
        image, text = (candidates, queries) if by_text else (queries, candidates)
        return image * len(self.texts) + text

    def _first(self, by_text: bool) -> Iterator[tuple[slice, Tensor]]:
        similarity, chunk = self.encoded.model.similarity, self.encoded.settings.chunk
        return score_blocks(self.images, self.texts, similarity, by_text, chunk)
