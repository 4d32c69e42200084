"""Matching: all captions of all levels of detail, ranked against the many-to-many truth.

As `retrieval.py`, whose metrics it shares, with every caption of every image among queries and candidates. It needs a
source that can judge any caption of any image; mAP@R is the metric to read. Where every image has one caption it would
repeat `retrieval`, and is left out.
"""

from __future__ import annotations

from equipoise.data.source import Source, is_judged
from equipoise.evaluation.encoding import Encoded, has_captions
from equipoise.evaluation.evaluator import EvalResult, Evaluator
from equipoise.evaluation.retrieval import Retrieval, rank


class Matching(Evaluator):
    """Ranks every image and all its captions, of all levels of detail, by all true matches, and by labelled pairs."""

    task = Retrieval.task
    metrics = Retrieval.metrics
    cites = Retrieval.cites

    def applies(self, source: Source) -> bool:
        if not has_captions(source) or not is_judged(source):
            return False
        return any(len(source.pair(index).captions) > 1 for index in range(len(source)))

    def __call__(self, encoded: Encoded) -> EvalResult:
        return rank(encoded, 0)
