"""Consistency score: whether prompts and neighbouring images say the same of an image's class, right or wrong.

Goel et al. 2022, "CyCLIP: Cyclic Contrastive Language-Image Pretraining", §4 (consistency in image and text spaces).

    score_k = mean_i [ class by prompts of image i = class by the k nearest other images of image i ]

Class by prompts: the highest score of `zeroshot.py`. Class by neighbours: the label that most of the k have, and of
several such labels the one whose neighbour is nearest. The authors look for neighbours among 50,000 images of the
training split; here they are the other labelled images of the same split, for an evaluation sees one. Fewer than k + 1
images have no score_k. A block of similarities exists at a time.
"""

from __future__ import annotations

import torch
from torch import Tensor

from equipoise.data.source import Source, is_labelled
from equipoise.evaluation.encoding import Encoded, at_least_float32, has_labels
from equipoise.evaluation.evaluator import EvalResult, Evaluator
from equipoise.evaluation.metrics import Metric
from equipoise.evaluation.zeroshot import class_scores
from equipoise.spaces import Space

NEIGHBOURS = (1, 5)
COLUMNS = 4096  # images that others are compared with at once
METRICS = {
    "consistency_1nn": Metric(
        "consistency, 1 neighbour", "Share of images whose class by prompts is that of the nearest other image."
    ),
    "consistency_5nn": Metric(
        "consistency, 5 neighbours", "Share of images whose class by prompts is that of most of the 5 nearest others."
    ),
}


class ConsistencyScore(Evaluator):
    """Compares the class of each labelled image by prompts with that of its nearest other images."""

    task = "zeroshot_classification"
    cites = ("goel2022cyclip",)
    metrics = METRICS

    def applies(self, source: Source) -> bool:
        return has_labels(source)

    def __call__(self, encoded: Encoded) -> EvalResult:
        assert is_labelled(encoded.source)
        images, labels, prompts = encoded.classes
        settings, space = encoded.settings, encoded.model.space
        scores = class_scores(images, prompts, space, settings.average, settings.chunk)
        by_prompts = torch.cat([block.argmax(1) for block in scores])
        numbers = consistency_scores(images, labels, by_prompts, space, settings.chunk)
        return EvalResult(numbers, dict.fromkeys(numbers, 1 / len(encoded.source.class_names)))


@torch.no_grad()
def consistency_scores(
    images: Tensor, labels: Tensor, by_prompts: Tensor, space: Space, chunk: int = 1024
) -> dict[str, float]:
    """Scores by name of images [N, d] that have `labels` [N] and are taken for `by_prompts` [N]."""
    possible = [k for k in NEIGHBOURS if k < len(images)]
    if not possible:
        return {}
    images = at_least_float32(images)
    labels = labels.to(images.device)
    rows = torch.arange(len(images), device=images.device).split(chunk)
    nearest = torch.cat([_nearest(images, own, max(possible), space) for own in rows])
    agree = {k: _majority(labels[nearest[:, :k]]) == by_prompts.to(images.device) for k in possible}
    return {f"consistency_{k}nn": float(same.double().mean()) for k, same in agree.items()}


def _nearest(images: Tensor, rows: Tensor, k: int, space: Space) -> Tensor:
    """Numbers of the k images closest to each row, itself left out, the closest first [n, k]."""
    values, numbers = images.new_empty(len(rows), 0), rows.new_empty(len(rows), 0)
    for cols in torch.arange(len(images), device=images.device).split(COLUMNS):
        found = space.similarity(images[rows], images[cols]).masked_fill(rows[:, None] == cols, -torch.inf)
        values = torch.cat([values, found], 1)
        numbers = torch.cat([numbers, cols.expand(len(rows), -1)], 1)
        values, kept = values.topk(min(k, values.shape[1]), dim=1)
        numbers = numbers.gather(1, kept)
    return numbers


def _majority(labels: Tensor) -> Tensor:
    """The most frequent of each row's labels [n, k], and of equals the one that comes first."""
    votes = (labels[:, :, None] == labels[:, None, :]).sum(2)
    first = votes.argmax(1)  # not promised to be the first of equals: make it so
    earliest = (votes == votes.gather(1, first[:, None])).int().cummax(1).values.sum(1)
    return labels.gather(1, (labels.shape[1] - earliest)[:, None])[:, 0]
