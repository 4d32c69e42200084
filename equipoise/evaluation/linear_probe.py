"""Linear probe: how well do a frozen encoder's features tell classes apart, with nothing but a linear map on top?

On features before the projection: the class tokens of the image tower, one after the other, or the mean over its
tokens, where the readout reads no class token (`code_book`, `token_set`: their class token is never trained). Chen et
al. 2023 (FDT), §4.1, probe "the FDT-based features", which are the points (`--points`).

Radford et al. 2021, App. A.3: logistic regression by L-BFGS, at most 1,000 iterations, the L2 strength chosen on a
validation split by a parametric search over 10^-6 ... 10^6 in steps of two decades, halved around the best until
there are eight steps to a decade; then trained on training and validation data together.

    min_W  ½‖W‖² + C Σ_i CE(W x_i + b, y_i)          C is the inverse of the strength, as in scikit-learn

x [N, w] features, y [N] classes. The sweep never sees test data. `lp_acc1`, `lp_acc5` and `lp_mean_per_class_recall`
are CLIP_benchmark's names. Siblings: `sgd_probe.py` trains the map by SGD, `knn_probe.py` has no map, and
`few_shot_curve.py` gives this one a few pictures of each class.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from equipoise.evaluation.metrics import Metric
from equipoise.evaluation.zeroshot import zero_shot_chance
from equipoise.types import UserError

METRICS = {
    "lp_acc1": Metric("accuracy", "Share of images whose class a linear map on frozen features gets right."),
    "lp_acc5": Metric("top-5 accuracy", "Share of images whose class is among its first five."),
    "lp_mean_per_class_recall": Metric("mean per-class recall", "Its accuracy averaged over classes."),
}
LOWEST, HIGHEST, FIRST_STEP, LAST_STEP = -6.0, 6.0, 2.0, 1 / 8  # of log10 C
ITERATIONS = 1000


class Labelled(NamedTuple):
    features: Tensor  # [N, w]
    classes: Tensor  # [N]


@dataclass(frozen=True)
class LinearProbe:
    metrics: dict[str, float]
    chosen: float | None = None  # what was swept: C, a learning rate, a number of neighbours
    sweep: tuple[tuple[float, float], ...] = ()  # each that was tried and its accuracy on validation data


def probe_lbfgs(
    train: Labelled, validation: Labelled, test: Labelled, on_fit: Callable[[], object] = lambda: None
) -> LinearProbe:
    """The regression whose C does best on validation, on test data; calls `on_fit` after every fit."""
    require_labelled(train, validation, test)
    chosen, sweep = choose_penalty(train, validation, on_fit)
    scores = regression(joined(train, validation), chosen)(test.features)
    on_fit()
    return LinearProbe(measured(scores, test.classes), chosen, sweep)


def choose_penalty(
    train: Labelled, validation: Labelled, on_fit: Callable[[], object] = lambda: None
) -> tuple[float, tuple[tuple[float, float], ...]]:
    """C of the sweep that does best on validation data, and the whole sweep: C and accuracy."""

    def accuracy(exponent: float) -> float:
        scores = regression(train, 10**exponent)(validation.features)
        on_fit()
        return float((scores.argmax(dim=1) == validation.classes).double().mean())

    found = search(accuracy)
    best = max(found, key=lambda exponent: (found[exponent], -exponent))  # of equals, the strongest penalty
    return 10**best, tuple((10**exponent, found[exponent]) for exponent in sorted(found))


def search(accuracy: Callable[[float], float]) -> dict[float, float]:
    """Exponents of ten that were tried and what each scored: a coarse grid, then ever finer around the best."""
    step = FIRST_STEP
    tried = {float(e): accuracy(float(e)) for e in np.arange(LOWEST, HIGHEST + step / 2, step)}
    while step > LAST_STEP:
        step /= 2
        best = max(tried, key=lambda exponent: (tried[exponent], -exponent))
        for exponent in (best - step, best + step):
            if LOWEST <= exponent <= HIGHEST and exponent not in tried:
                tried[exponent] = accuracy(exponent)
    return tried


def measured(scores: Tensor, classes: Tensor) -> dict[str, float]:
    """Accuracies of class scores [N, C]."""
    right = (scores.argmax(dim=1) == classes).double()
    recalls = [right[classes == one].mean() for one in classes.unique()]
    numbers = {"lp_acc1": float(right.mean()), "lp_mean_per_class_recall": float(torch.stack(recalls).mean())}
    if scores.shape[1] >= 5:
        within = (scores.topk(5, dim=1).indices == classes[:, None]).any(dim=1)
        numbers["lp_acc5"] = float(within.double().mean())
    return numbers


def probe_chance(classes: int) -> dict[str, float]:
    """Expected values when one of `classes` is guessed."""
    return {f"lp_{name}": value for name, value in zero_shot_chance(classes).items()}


def regression(train: Labelled, inverse_strength: float) -> Callable[[Tensor], Tensor]:
    """Scikit-learn's logistic regression; gives scores [N, C], for classes it never saw -inf."""
    try:
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.linear_model import LogisticRegression
    except ImportError as error:
        raise UserError(
            "a linear probe needs scikit-learn; pip install 'equipoise[probe]', or use --protocol sgd"
        ) from error
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the protocol stops after 1,000 iterations, settled or not
        fitted = LogisticRegression(C=inverse_strength, max_iter=ITERATIONS).fit(
            train.features.double().numpy(), train.classes.numpy()
        )

    def scores(features: Tensor) -> Tensor:
        raw = torch.from_numpy(fitted.decision_function(features.double().numpy()))
        raw = torch.stack([-raw, raw], dim=1) if raw.ndim == 1 else raw  # two classes share one score
        full = raw.new_full((len(raw), int(fitted.classes_.max()) + 1), -torch.inf)
        full[:, torch.from_numpy(fitted.classes_)] = raw
        return full

    return scores


def joined(*parts: Labelled) -> Labelled:
    """Records of several parts, one after the other."""
    return Labelled(*(torch.cat(some) for some in zip(*parts, strict=True)))


def class_count(*parts: Labelled) -> int:
    return 1 + max(int(part.classes.max()) for part in parts)


def require_labelled(*parts: Labelled) -> None:
    """Raises UserError where a part is empty or not finite, or the first has a single class."""
    for part in parts:
        if not len(part.classes):
            raise UserError("a linear probe needs labelled records to train, to validate and to test on; some lack all")
        if not torch.isfinite(part.features).all():
            raise UserError("some features are not finite: look for NaN in the model's weights")
    require_classes(parts[0].classes)


def require_classes(classes: Tensor) -> None:
    """Raises UserError where all records are of one class."""
    if len(classes.unique()) < 2:
        raise UserError("all training records are of one class, so there is nothing to tell apart; give two or more")
