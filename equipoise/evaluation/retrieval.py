"""Retrieval both ways: given an image find its texts, given a text find its image. Formulas are in `ranking.py`.

Ranked are five captions of each image at most, as papers on MSCOCO and Flickr30K have it, or as many as
`evaluation.captions` says; the result says how many. `evaluation.folds` ranks parts of the data one by one
(`folds.py`). True matches are what the source judges, or what a file says (`evaluation.relevance`).
"""

from __future__ import annotations

import warnings
from pathlib import Path

from equipoise.data.annotations.caption_ids import caption_ids
from equipoise.data.annotations.relevance_files import read_relevance
from equipoise.data.source import Source, is_judged
from equipoise.evaluation.copies import Copies, find_copies
from equipoise.evaluation.encoding import Captions, Encoded, captions, has_captions
from equipoise.evaluation.evaluator import EvalResult, Evaluator
from equipoise.evaluation.folds import chance_in_folds, retrieval_in_folds
from equipoise.evaluation.metrics import Metric, both_directions
from equipoise.evaluation.ranking import Relevance, retrieval, retrieval_chance
from equipoise.evaluation.relevance import SparseRelevance, join
from equipoise.evaluation.settings import Evaluation

METRICS = {
    **both_directions({
        "R@1": Metric("R@1", "Share of queries whose labelled match comes first."),
        "R@5": Metric("R@5", "Share of queries with a labelled match among the first 5."),
        "R@10": Metric("R@10", "Share of queries with a labelled match among the first 10."),
        "queries": Metric("queries", "Number of queries with a labelled match; only these are counted.", "count"),
        "mAP@R": Metric(
            "mAP@R", "How well all true matches are ranked: for a query with R of them, precision over the first R."
        ),
        "R-Precision": Metric(
            "R-Precision", "For a query with R true matches, the share of them among the first R results."
        ),
        "true_R@1": Metric("true R@1", "Share of queries whose first result truly matches, labelled or not."),
        "true_queries": Metric(
            "true queries", "Number of queries with a true match; only these are counted.", "count"
        ),
    }),
    "mean_recall": Metric("mean recall", "Average of R@1, R@5 and R@10 over both directions."),
    "rsum": Metric(
        "rsum", "Sum of R@1, R@5 and R@10 over both directions, in percentage points: at most 600.", "points"
    ),
}  # fmt: skip


class Retrieval(Evaluator):
    """Ranks every image and five captions of each (`evaluation.captions`) by labelled pairs, and by all true matches
    where the data or `evaluation.relevance` knows them."""

    task = "zeroshot_retrieval"
    cites = ("musgrave2020reality",)
    metrics = METRICS

    def applies(self, source: Source) -> bool:
        return has_captions(source)

    def __call__(self, encoded: Encoded) -> EvalResult:
        return rank(encoded, encoded.per_image)


def rank(encoded: Encoded, per_image: int) -> EvalResult:
    """Retrieval of all images and `per_image` captions of each, 0 for all, with all truth the source has."""
    images, source = encoded.images, encoded.source
    ranked, points = encoded.captions(per_image)
    settings, similarity = encoded.settings, encoded.model.similarity
    owners, copies = ranked.image_of_text, counted_copies(source, ranked, settings)
    several = len(owners) / max(len(images), 1)
    notes: dict[str, int | str] = {"captions_per_image": f"{several:.3g}", "folds": settings.folds}
    if settings.folds > 1:
        found = retrieval_in_folds(images, points, similarity, owners, settings.folds, settings.chunk, copies)
        return EvalResult(found, chance_in_folds(len(images), owners, settings.folds, copies), notes=notes)
    truth = _truth(source, ranked, settings)
    metrics = retrieval(images, points, similarity, owners, truth, settings.chunk, copies)
    return EvalResult(metrics, retrieval_chance(len(images), owners, truth, copies), notes=notes)


def _truth(source: Source, ranked: Captions, settings: Evaluation) -> Relevance | None:
    """What is relevant to what: as the file of the settings says, or the source itself."""
    if settings.relevance:
        return _read_truth(source, ranked, settings)
    return source.relevance(range(len(source)), ranked.texts) if is_judged(source) else None


def _read_truth(source: Source, ranked: Captions, settings: Evaluation) -> SparseRelevance:
    file = Path(settings.relevance)
    ids = caption_ids(source, Path(settings.annotations) if settings.annotations else None)
    given = read_relevance(file)
    texts = ids.of_texts(ranked.image_of_text.tolist())
    joined = join(ids.images, texts, given.by_image, given.by_caption, str(file))
    if said := joined.sentence(str(file)):
        warnings.warn(f"{said}; they are left out", stacklevel=2)
    return joined.relevance


def require_relevance(source: Source, settings: Evaluation) -> None:
    """Raise UserError for a file of relevance that cannot be read, or that knows nothing of the source."""
    if settings.relevance and has_captions(source):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what is left out is told where it is measured
            _read_truth(source, captions(source, settings.captions_of(is_judged(source))), settings)


def counted_copies(source: Source, ranked: Captions, settings: Evaluation) -> Copies | None:
    """The copies that count as matches; says how many they are."""
    copies = find_copies(source, ranked)
    if not copies:
        return None
    pictures, texts = copies.counted()
    said = f"{pictures:,} of {len(copies.images):,} pictures and {texts:,} of {len(copies.texts):,} captions are copies"
    as_matches = settings.copies == "matches"
    way = "count as each other's matches" if as_matches else "count as misses (evaluation.copies)"
    warnings.warn(f"{said} of others here, which no model can tell apart; in retrieval they {way}", stacklevel=2)
    return copies if as_matches else None
