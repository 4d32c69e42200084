"""Subsets of modalities at test time: what is told of a label when some are missing.

Poklukar et al. 2022 (GMC), §5; Oh et al. 2023, "Geodesic Multi-Modal Mixup for Robust Fine-Tuning", Table 7, App. A.3.

    codes     one modality: its own code; several: the mean of their codes, as it is; all: the joint code
    joint     the joint encoder, to which the others are not there
    zeroed    the joint encoder, with zeros for the others: how a model without codes of modalities is read

`SUBSET_METRIC`, where SUBSET joins the names by + (`text+audio`); `SUBSET_joint_METRIC` and `SUBSET_zeroed_METRIC` of
the other ways. METRIC is one of `modalities.py`: accuracy and weighted F1 of classes; of numbers by their sign, and
their error and correlation; alignment and uniformity of partial and joint codes. `mean_accuracy`, `mean_joint_accuracy`
and `mean_zeroed_accuracy` are means over all 2^k - 1 subsets. A sample that lacks all of a subset is left out of it.
*Do not* compare alignment and uniformity between spaces.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

import torch
from torch import Tensor

from equipoise.data.source import ModalSource, Source, has_modalities
from equipoise.data.tokenizer import NoTokenizer
from equipoise.evaluation.encoding import Encoded
from equipoise.evaluation.evaluator import EvalResult, Evaluator
from equipoise.evaluation.metrics import Metric
from equipoise.evaluation.modalities import METRICS, label_chance, label_metrics, partial_geometry, subsets_of
from equipoise.models.compatibility import require_compatible
from equipoise.models.modal_model import WAYS, ModalModel, subset_inputs
from equipoise.models.model import Model

ENDINGS = {"codes": "", "joint": "_joint", "zeroed": "_zeroed"}
COLUMNS = {
    "accuracy": "acc.",
    "accuracy7": "acc. of 7",
    "f1": "F1",
    "mae": "MAE",
    "correlation": "corr.",
    "alignment": "align.",
    "uniformity": "unif.",
}
TOLD = {"": "", "_joint": " (joint)", "_zeroed": " (zeroed)"}
MEANS = {way: f"mean{ending}_accuracy" for way, ending in ENDINGS.items()}
NAME = re.compile(rf"(?P<subset>.+?)(?P<way>_joint|_zeroed)?_(?P<kind>{'|'.join(METRICS)})")


class Subsets(Evaluator):
    """Tells labels from every subset of named modalities, by their codes, by the joint encoder, and with zeros for the
    rest."""

    task = "zeroshot_classification"
    metrics: ClassVar[Mapping[str, Metric]] = {
        name: Metric(f"mean over subsets: accuracy{TOLD[ENDINGS[way]]}", "Accuracy, averaged over all subsets.")
        for way, name in MEANS.items()
    }
    cites = ("poklukar2022gmc", "oh2023geodesic")

    def describe(self, name: str) -> Metric | None:
        if name in self.metrics:
            return self.metrics[name]
        found = NAME.fullmatch(name)
        if not found:
            return None
        kind, way = METRICS[found["kind"]], TOLD[found["way"] or ""]
        return replace(kind, short=f"{kind.short}{way}", direction=found["subset"].replace("+", " + "))

    def table(self, numbers: Mapping[str, float]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        """A row for each subset, a column for each metric."""
        rows: dict[str, dict[str, str]] = {}
        for name, value in numbers.items():
            said = NAME.fullmatch(name)
            if said and name not in self.metrics and (not said["way"] or said["kind"] == "accuracy"):
                column = f"{COLUMNS.get(said['kind'], said['kind'])}{TOLD[said['way'] or '']}"
                rows.setdefault(said["subset"], {})[column] = METRICS[said["kind"]].show(value)
        for way, name in MEANS.items():
            if name in numbers:
                rows.setdefault("mean", {})[f"acc.{TOLD[ENDINGS[way]]}"] = METRICS["accuracy"].show(numbers[name])
        columns = list(dict.fromkeys(column for row in rows.values() for column in row))
        return ("given", *columns), [(name, *(row.get(column, "") for column in columns)) for name, row in rows.items()]

    def applies(self, source: Source) -> bool:
        return has_modalities(source) and source.outputs > 0

    def suits(self, model: Model) -> bool:
        return isinstance(model, ModalModel) and model.label_head is not None

    def __call__(self, encoded: Encoded) -> EvalResult:
        model, source = encoded.model, encoded.source
        assert isinstance(model, ModalModel)
        assert has_modalities(source)
        require_compatible(model, source)
        found: dict[str, float] = {}
        size, whole = encoded.settings.batch_size, tuple(model.modalities)
        joint = subset_codes(model, source, whole, "codes", size)
        for names in subsets_of(whole):
            rows = present_rows(source, names)
            for way in WAYS if names != whole else WAYS[:1]:
                codes = joint if names == whole else subset_codes(model, source, names, way, size)
                measured = label_metrics(model.predict(codes[rows]).cpu(), source.labels[rows])
                if way == "codes":
                    measured |= partial_geometry(codes[rows].cpu(), joint[rows].cpu())
                found |= {f"{'+'.join(names)}{ENDINGS[way]}_{kind}": value for kind, value in measured.items()}
        found |= _means(found, "+".join(whole))
        return EvalResult(found, _chance(found, source.outputs))


def subset_metrics(source: ModalSource) -> list[str]:
    """Names of metrics that can choose the best model."""
    if not source.outputs:
        return ["modal_mean_recall"]
    names = [f"{'+'.join(some)}_accuracy" for some in subsets_of(tuple(source.modalities))]
    return [*MEANS.values(), *names, "modal_mean_recall"]


def by_codes(name: str) -> bool:
    """Whether a metric is of one subset, read by the mean of its codes: the way that `mean_accuracy` averages."""
    said = NAME.fullmatch(name)
    return said is not None and name not in MEANS.values() and not said["way"]


def subset_codes(model: ModalModel, source: ModalSource, names: tuple[str, ...], way: str, size: int) -> Tensor:
    """Codes [N, d] of all samples by some of their modalities; rows of samples that lack all of them mean nothing."""

    def encode(rows: range) -> Tensor:
        batch = source.batch(rows, (), NoTokenizer())
        return model.subset(subset_inputs(batch, names), way)

    return model.encode_all(len(source), size, encode)


def present_rows(source: ModalSource, names: tuple[str, ...]) -> Tensor:
    """Numbers of the samples that have some of these modalities."""
    return torch.stack([source.present(name) for name in names]).any(0).nonzero()[:, 0]


def _means(found: Mapping[str, float], whole: str) -> dict[str, float]:
    """Accuracy by each way, averaged over all subsets; all modalities together are read one way alone."""
    means = {}
    for way, name in MEANS.items():
        said = ((NAME.fullmatch(key), value) for key, value in found.items())
        own = [(one["subset"], one["way"] or "", value) for one, value in said if one and one["kind"] == "accuracy"]
        if values := [value for subset, ending, value in own if subset == whole or ending == ENDINGS[way]]:
            means[name] = sum(values) / len(values)
    return means


def _chance(found: Mapping[str, float], outputs: int) -> dict[str, float]:
    """What guessing scores, of the numbers that it has an expectation of."""
    by_kind, chance = label_chance(outputs), {}
    for name in found:
        said = NAME.fullmatch(name)
        kind = "accuracy" if name in MEANS.values() or said is None else said["kind"]
        if kind in by_kind:
            chance[name] = by_kind[kind]
    return chance
