"""Labels told from modalities, and how partial codes lie to joint ones: the numbers of a table of subsets.

Zadeh et al. 2016/2018 (CMU-MOSI, CMU-MOSEI), as Tsai et al. 2019 (MulT) and Poklukar et al. 2022 (GMC) measure them.

    labels        numbers [N]                                          classes [N], from 0
    accuracy      sign(ŷ) = sign(y), over y ≠ 0 (2 classes)            argmax ŷ = y
    accuracy7     round(clip(ŷ)) = round(clip(y)), clip to [-3, 3]     -
    f1            weighted F1 of the same 2 classes                    weighted F1 of all classes
    mae           mean |ŷ - y|                                         -
    correlation   Pearson's, of ŷ and y                                -

    F1 of class c = 2 TP / (2 TP + FP + FN), 0 where nobody is or is told to be c;  weighted by how many are of class c

ŷ [N] or [N, 1] numbers, or [N, C] scores. ŷ = 0 is told negative, as papers have it (ŷ > 0), and halves round to even.
The code of MulT and GMC hands predictions to `f1_score` as if they were the truth, so that classes are weighted by how
often they are told: `weighted_f1` with both exchanged gives their number. What is not defined is left out: accuracy
where all labels are 0, seven classes of labels beyond [-3, 3], the correlation of a constant.
*Do not* read accuracy beside one of another convention: with y = 0 counted as positive, figures differ by some points.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from itertools import combinations

import torch
from torch import Tensor

from equipoise.evaluation.encoding import at_least_float32
from equipoise.evaluation.geometry import alignment, uniformity
from equipoise.evaluation.metrics import Metric
from equipoise.types import UserError

STRONGEST = 3  # sentiment is from -3 to 3: seven classes

METRICS: Mapping[str, Metric] = {
    "accuracy": Metric("accuracy", "Share of samples whose class, or whose sign where it is not 0, is told right."),
    "accuracy7": Metric("accuracy of 7", "Share of samples whose number, rounded, is told right: -3 to 3."),
    "f1": Metric("weighted F1", "F1 of each class, weighted by how many samples are of it.", "plain"),
    "mae": Metric("mean absolute error", "Mean distance of what is told from the number.", "plain"),
    "correlation": Metric("correlation", "Pearson's, of what is told with the number.", "plain"),
    "alignment": Metric("alignment", "How much closer partial codes are to their joint code than to others.", "plain"),
    "uniformity": Metric("uniformity", "How evenly partial and joint codes together are spread.", "plain"),
}


def subsets_of(names: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """All 2^k - 1 subsets: single modalities first, all together last, each in the order of `names`."""
    return tuple(some for count in range(1, len(names) + 1) for some in combinations(names, count))


def label_metrics(told: Tensor, labels: Tensor) -> dict[str, float]:
    """Numbers by name, of what a head tells about labels: whole numbers are classes, floats are numbers."""
    _check(told, labels)
    if not len(labels):
        return {}
    if not labels.is_floating_point():
        classes = told.argmax(1)
        return {"accuracy": _share(classes == labels), "f1": weighted_f1(classes, labels)}
    numbers, labels = told.flatten().double(), labels.flatten().double()
    found = {"mae": float((numbers - labels).abs().mean())}
    if bool((labels.abs() <= STRONGEST).all()):
        found["accuracy7"] = _share(_of_seven(numbers) == _of_seven(labels))
    signed = labels != 0
    if bool(signed.any()):
        positive, truth = numbers[signed] > 0, labels[signed] > 0
        found |= {"accuracy": _share(positive == truth), "f1": weighted_f1(positive.long(), truth.long())}
    together = correlation(numbers, labels)
    return found if together is None else {**found, "correlation": together}


def label_chance(outputs: int) -> dict[str, float]:
    """Expectation of guessing among classes, or among signs and roundings where a head tells one number."""
    return {"accuracy": 1 / outputs} if outputs > 1 else {"accuracy": 1 / 2, "accuracy7": 1 / (2 * STRONGEST + 1)}


def weighted_f1(told: Tensor, truth: Tensor) -> float:
    """Weighted F1 of classes told [N] against true ones [N]."""
    classes = int(max(told.max(), truth.max())) + 1
    right = torch.bincount(truth[told == truth], minlength=classes).double()
    of_truth, of_told = (torch.bincount(x, minlength=classes).double() for x in (truth, told))
    f1 = 2 * right / (of_truth + of_told).clamp(min=1)  # 2 TP + FP + FN is how many are, and how many are told to be
    return float((f1 * of_truth).sum() / of_truth.sum())


def correlation(first: Tensor, second: Tensor) -> float | None:
    """Pearson's correlation of numbers [N] and [N]; None where either is constant."""
    x, y = (values.double() - values.double().mean() for values in (first, second))
    constant = any(bool((values == values[0]).all()) for values in (first, second))  # a mean of equals may round
    return None if constant else float((x / x.norm()) @ (y / y.norm()))


def partial_geometry(partial: Tensor, joint: Tensor) -> dict[str, float]:
    """Alignment and uniformity (`geometry.py`) of codes [N, d] by some modalities and by all; empty below two samples.

    Codes that are means of others are taken as they are, inside the sphere. Where a subset is all modalities, alignment
    says how far a joint code is from the closest other.
    """
    if len(partial) < 2:
        return {}
    partial, joint = at_least_float32(partial), at_least_float32(joint)
    return {"alignment": alignment(partial, joint), "uniformity": uniformity(partial, joint)}


def over_seeds(runs: Sequence[Mapping[str, float]]) -> dict[str, tuple[float, float]]:
    """Mean and standard deviation (of a sample: n - 1) of every number that all runs have; 0 for a single run."""
    if not runs:
        raise UserError("there are no runs to average")
    shared = [name for name in runs[0] if all(name in run for run in runs)]
    values = {name: [run[name] for run in runs] for name in shared}
    return {name: (statistics.fmean(x), statistics.stdev(x) if len(x) > 1 else 0.0) for name, x in values.items()}


def _share(right: Tensor) -> float:
    return float(right.double().mean())


def _of_seven(numbers: Tensor) -> Tensor:
    return numbers.clamp(-STRONGEST, STRONGEST).round()


def _check(told: Tensor, labels: Tensor) -> None:
    numbers = labels.is_floating_point()
    fits = told.numel() == labels.numel() if numbers else told.ndim == 2 and labels.shape == told.shape[:1]
    if not fits or len(told) != len(labels):
        wanted = "one number per sample" if numbers else "scores [N, C] for classes [N]"
        raise UserError(f"what is told must be {wanted}, not {list(told.shape)} for {list(labels.shape)}")
    if not all(bool(x.isfinite().all()) for x in (told, labels)):
        raise UserError("what is told, or the labels, are not all finite; look for NaN in weights or data")
    if not numbers and len(labels) and not 0 <= int(labels.min()) <= int(labels.max()) < told.shape[1]:
        raise UserError(f"labels reach from {int(labels.min())} to {int(labels.max())}, but {told.shape[1]} are told")
