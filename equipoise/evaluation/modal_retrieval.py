"""Retrieval among modalities: given a sample in one of them, find it in another, for all pairs.

Formulas are in `ranking.py`; both directions of each pair, `A_to_B_R@k`. Samples that lack one of the two are left out
of the pair. `modal_mean_recall` is the mean over all pairs and directions.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import combinations
from typing import ClassVar

import torch

from equipoise.data.source import Source, has_modalities
from equipoise.evaluation.encoding import Encoded
from equipoise.evaluation.evaluator import EvalResult, Evaluator
from equipoise.evaluation.metrics import Metric
from equipoise.evaluation.ranking import retrieval, retrieval_chance
from equipoise.evaluation.subsets import subset_codes
from equipoise.models.compatibility import require_compatible
from equipoise.models.modal_model import ModalModel
from equipoise.models.model import Model

NAME = re.compile(r"(?P<query>.+)_to_(?P<found>.+)_R@(?P<k>\d+)")
MEAN = "modal_mean_recall"


class ModalRetrieval(Evaluator):
    """Ranks the samples of one modality for each of another, among all pairs of named modalities."""

    task = "zeroshot_retrieval"
    metrics: ClassVar[Mapping[str, Metric]] = {
        MEAN: Metric("mean recall", "Average of R@1, R@5 and R@10 over all pairs of modalities, both ways.")
    }
    cites = ("musgrave2020reality",)

    def describe(self, name: str) -> Metric | None:
        found = NAME.fullmatch(name)
        if not found:
            return self.metrics.get(name)
        meaning = f"Share of samples that are among the first {found['k']} in one modality, given another."
        return Metric(f"R@{found['k']}", meaning, direction=f"{found['query']} → {found['found']}")

    def applies(self, source: Source) -> bool:
        return has_modalities(source)

    def suits(self, model: Model) -> bool:
        return isinstance(model, ModalModel)

    def __call__(self, encoded: Encoded) -> EvalResult:
        model, source, settings = encoded.model, encoded.source, encoded.settings
        assert isinstance(model, ModalModel)
        assert has_modalities(source)
        require_compatible(model, source)
        points = {name: subset_codes(model, source, (name,), "codes", settings.batch_size) for name in model.modalities}
        found: dict[str, float] = {}
        chance: dict[str, float] = {}
        for a, b in combinations(model.modalities, 2):
            rows = (source.present(a) & source.present(b)).nonzero()[:, 0]
            if len(rows) < 2:
                continue
            own = torch.arange(len(rows))
            ranked = retrieval(points[a][rows], points[b][rows], model.similarity, own, None, settings.chunk)
            found |= _renamed(ranked, a, b)
            chance |= _renamed(retrieval_chance(len(rows), own), a, b)
        if not found:
            return EvalResult({}, {})
        return EvalResult({**found, MEAN: _mean(found)}, {**chance, MEAN: _mean(chance)})


def _renamed(numbers: Mapping[str, float], a: str, b: str) -> dict[str, float]:
    """Recalls of images and texts as those of two modalities."""
    ways = {"image_to_text": f"{a}_to_{b}", "text_to_image": f"{b}_to_{a}"}
    split = ((name.partition("_R@"), value) for name, value in numbers.items())
    return {f"{ways[way]}_R@{k}": value for (way, _, k), value in split if k and way in ways}


def _mean(numbers: Mapping[str, float]) -> float:
    return sum(numbers.values()) / len(numbers)
