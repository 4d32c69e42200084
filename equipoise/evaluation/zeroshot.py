"""Zero-shot classification: an image belongs to the class whose prompts are closest.

Each class is described by T prompts ("a photo of a {}", "a drawing of a {}", ...). The class's score is either

    average="similarity"   s_c(u) = 1/T Σ_t s(u, p_ct)           right in any space
    average="embedding"    s_c(u) = s(u, project(1/T Σ_t p_ct))  CLIP's way: one vector a class, cheaper for many images

On the sphere the two differ only by the length of the mean: classes with scattered prompts lose in the first.
Names are CLIP_benchmark's: `acc1`, `acc5` (left out below five classes, where it says nothing) and
`mean_per_class_recall`, which weighs the classes equally whatever their size; classes without an image do not count.
Ties are broken against the model: a class is predicted only if it is strictly closer than every other one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import torch
from torch import Tensor

from equipoise.data.source import Source, is_labelled
from equipoise.evaluation.encoding import Encoded, at_least_float32, has_labels
from equipoise.evaluation.evaluator import EvalResult, Evaluator
from equipoise.evaluation.metrics import Metric
from equipoise.evaluation.settings import AVERAGES
from equipoise.types import UserError


class SpaceLike(Protocol):
    def project(self, x: Tensor) -> Tensor: ...
    def similarity(self, u: Tensor, v: Tensor) -> Tensor: ...


METRICS = {
    "acc1": Metric("accuracy", "Share of images whose class comes first, by prompts alone."),
    "acc5": Metric("top-5 accuracy", "Share of images whose class is among the first five."),
    "mean_per_class_recall": Metric(
        "mean per-class recall", "Accuracy averaged over classes, so that each weighs the same."
    ),
}


class ZeroShot(Evaluator):
    """Classifies the images that carry a label, by the prompts of every class."""

    task = "zeroshot_classification"
    metrics = METRICS

    def applies(self, source: Source) -> bool:
        return has_labels(source)

    def __call__(self, encoded: Encoded) -> EvalResult:
        assert is_labelled(encoded.source)
        classes, settings = encoded.source.class_names, encoded.settings
        arguments = (*encoded.classes, encoded.model.space, settings.average, settings.chunk)
        counts = confusion(*arguments).cpu().numpy()
        return EvalResult(zero_shot(*arguments), zero_shot_chance(len(classes)), counts, tuple(classes))


def zero_shot_chance(classes: int) -> dict[str, float]:
    """Expected values of `zero_shot` when one of `classes` is guessed."""
    guess = {"acc1": 1 / classes, "mean_per_class_recall": 1 / classes}
    return guess | ({"acc5": 5 / classes} if classes >= 5 else {})


def zero_shot(
    images: Tensor,
    labels: Tensor,
    prompts: Tensor,
    space: SpaceLike,
    average: str = "similarity",
    chunk: int = 1024,
) -> dict[str, float]:
    """Accuracies of `images` [N, d] with true classes `labels` [N], given the points `prompts` [C, T, d]."""
    position, predicted = classify(images, labels, prompts, space, average, chunk)
    recall = per_class_accuracy(_count(labels.to(predicted.device), predicted, len(prompts)))
    numbers = {f"acc{k}": (position <= k).double().mean().item() for k in (1, 5) if len(prompts) >= k}
    return numbers | {"mean_per_class_recall": recall[~recall.isnan()].mean().item()}


def confusion(
    images: Tensor,
    labels: Tensor,
    prompts: Tensor,
    space: SpaceLike,
    average: str = "similarity",
    chunk: int = 1024,
) -> Tensor:
    """Counts [C, C]: how many images of each true class (row) were taken for each class (column)."""
    _, predicted = classify(images, labels, prompts, space, average, chunk)
    return _count(labels.to(predicted.device), predicted, len(prompts))


def per_class_accuracy(counts: Tensor) -> Tensor:
    """Share of each class's images that were recognised [C], from `confusion`; NaN for a class without images."""
    return counts.diagonal().double() / counts.sum(dim=1)


@torch.no_grad()
def class_scores(
    images: Tensor, prompts: Tensor, space: SpaceLike, average: str = "similarity", chunk: int = 1024
) -> Iterator[Tensor]:
    """The score of every class [n, C] for `chunk` images [N, d] at a time, given the points `prompts` [C, T, d]."""
    images, prompts = at_least_float32(images), at_least_float32(prompts)
    if average == "embedding":
        prompts = space.project(prompts.mean(dim=1))[:, None]
    for points in images.split(chunk):
        scores = space.similarity(points, prompts.flatten(0, 1)).unflatten(1, prompts.shape[:2]).mean(dim=2)
        if not torch.isfinite(scores).all():
            raise UserError("some class scores are not finite: look for NaN in the model's weights.")
        yield scores


@torch.no_grad()
def classify(
    images: Tensor, labels: Tensor, prompts: Tensor, space: SpaceLike, average: str, chunk: int
) -> tuple[Tensor, Tensor]:
    """The true class's place, from 1, and the predicted class, for each image."""
    _check(images, labels, prompts, average)
    positions, predictions = [], []
    of_chunks = class_scores(images, prompts, space, average, chunk)
    for scores, truth in zip(of_chunks, labels.to(images.device)[:, None].split(chunk), strict=True):
        own = scores.gather(1, truth)
        rival = scores.scatter(1, truth, -torch.inf).max(dim=1, keepdim=True)
        positions.append((scores >= own).sum(dim=1))
        predictions.append(torch.where(own > rival.values, truth, rival.indices)[:, 0])
    return torch.cat(positions), torch.cat(predictions)


def _count(labels: Tensor, predicted: Tensor, classes: int) -> Tensor:
    return torch.bincount(labels * classes + predicted, minlength=classes**2).view(classes, classes)


def _check(images: Tensor, labels: Tensor, prompts: Tensor, average: str) -> None:
    if average not in AVERAGES:
        raise UserError(f'average = "{average}" is unknown: choose "similarity" or "embedding".')
    if prompts.ndim != 3:
        raise UserError(f"prompts must have the shape [classes, templates, dimensions], not {tuple(prompts.shape)}.")
    if not len(images) or labels.shape != (len(images),) or labels.min() < 0 or labels.max() >= len(prompts):
        raise UserError(
            f"zero-shot classification needs one label from 0 to {len(prompts) - 1} for each of {len(images)} images."
        )
