"""Every evaluation that a source of data has the truth for, run on a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch

from equipoise.data.keep.readable import readable
from equipoise.data.source import Source, has_modalities, is_judged, is_labelled
from equipoise.evaluation import EVALUATIONS
from equipoise.evaluation.encoding import Encoded, has_captions
from equipoise.evaluation.evaluator import EvalResult
from equipoise.evaluation.ranking import retrieval_chance
from equipoise.evaluation.settings import Evaluation
from equipoise.evaluation.subsets import subset_metrics
from equipoise.evaluation.zeroshot import zero_shot_chance
from equipoise.models.code_features import with_code_features
from equipoise.models.compatibility import require_compatible
from equipoise.models.model import Model

QUICK = ("retrieval", "geometry")  # measured while a run trains
QUICK_OF_CLASSES = ("zero_shot",)  # the same, of images that have classes and no captions of their own
QUICK_OF_MODALITIES = ("subsets", "modal_retrieval")  # the same, of named modalities
ALL_QUICK = (*QUICK, *QUICK_OF_CLASSES, *QUICK_OF_MODALITIES)
CHOOSING = ("retrieval", "zero_shot")  # of these, where metrics lie that choose the best step


def evaluate(model: Model, source: Source, settings: Evaluation) -> dict[str, EvalResult]:
    """Results by name, of all evaluations that apply to the source."""
    return evaluate_encoded(to_encode(model, source, settings))


def to_encode(model: Model, source: Source, settings: Evaluation) -> Encoded:
    """The source as `evaluate` sees it: what a model can read, and the features that are asked for."""
    if has_modalities(source):
        require_compatible(model, source)  # for no evaluation of a model of another kind would apply, in silence
    model = with_code_features(model) if settings.features == "weights" else model
    return Encoded(model, readable(source, model.tokens), settings)


def evaluate_encoded(encoded: Encoded) -> dict[str, EvalResult]:
    """As `evaluate`, of points that others may use too."""
    return _run(tuple(EVALUATIONS), encoded)


def validate(model: Model, source: Source, settings: Evaluation, names: Sequence[str] = ALL_QUICK) -> dict[str, float]:
    """Metrics of the quick evaluations, or of some of them, together: how far training has come. What a file says is
    relevant is of the test data, and left out."""
    encoded = Encoded(model, readable(source, model.tokens), replace(settings, relevance=""))
    quick = QUICK if has_captions(source) else QUICK_OF_MODALITIES if has_modalities(source) else QUICK_OF_CLASSES
    results = _run(tuple(name for name in quick if name in names), encoded)
    return {name: value for result in results.values() for name, value in result.metrics.items()}


def _run(names: tuple[str, ...], encoded: Encoded) -> dict[str, EvalResult]:
    known = ((name, EVALUATIONS[name]) for name in names)
    chosen = {name: one for name, one in known if one.applies(encoded.source) and one.suits(encoded.model)}
    results = {name: evaluation(encoded) for name, evaluation in chosen.items()}
    return {name: result for name, result in results.items() if result.metrics}


def validation_metrics(source: Source) -> list[str]:
    """Names of the metrics of `validate` that can choose the best model, known before any is measured."""
    if has_modalities(source):
        return subset_metrics(source)
    if not has_captions(source):
        assert is_labelled(source)
        return list(zero_shot_chance(len(source.class_names)))
    truth = np.ones((1, 1), dtype=bool) if is_judged(source) else None
    return list(retrieval_chance(1, torch.zeros(1, dtype=torch.long), truth))
