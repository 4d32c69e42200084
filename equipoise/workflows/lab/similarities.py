"""`equipoise lab similarities`: how far apart are pairs that belong together from pairs that do not?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace

from equipoise.analysis.report import AnalysisReport
from equipoise.analysis.sampled_pairs import draw_points
from equipoise.analysis.similarities import Similarities, draw_similarities, similarities
from equipoise.evaluation.metrics import percent
from equipoise.models.model import Model
from equipoise.types import UserError
from equipoise.workflows.subject import Subject


def compare_similarities(subject: Subject, other: str, pairs: int, bins: int) -> AnalysisReport:
    """The distributions on the subject's data, and on `other` data where some is named."""
    if bins < 2:
        raise UserError(f"a histogram of {bins} bins shows nothing; give at least 2")
    outside = replace(subject, data=other, overrides=())
    model = subject.model()
    found = {f"In domain ({subject.shown})": _of(model, subject, pairs, bins)}
    if other:
        found[f"Out of domain ({outside.shown})"] = _of(model, outside, pairs, bins)
    conclusion = sentence(found)
    numbers = {**subject.facts(), "distributions": {name: asdict(one) for name, one in found.items()}}
    return AnalysisReport("similarities", conclusion, numbers, draw_similarities(found, conclusion))


def _of(model: Model, subject: Subject, pairs: int, bins: int) -> Similarities:
    source = subject.source()
    return similarities(draw_points(model, source, min(pairs, len(source)), subject.seed), model.space, bins)


def sentence(found: Mapping[str, Similarities]) -> str:
    return " ".join(
        f"{name}: {percent(one.confused)} of other texts are closer to an image than its own "
        f"(own {_spread(one, 'positive')}, others {_spread(one, 'negative')})."
        for name, one in found.items()
    )


def _spread(found: Similarities, kind: str) -> str:
    spread = found.spreads[kind]
    return f"{spread.mean:.2f} ± {spread.deviation:.2f}"
