"""What guessing would score: the expectation of each number under a random ranking, to be printed beside it.

For a query with R matches among n candidates, in closed form:

    R@k          1 − C(n − R, k) / C(n, k)                    no match among k drawn without putting back
    mAP@R        p/R · (H_R + q (R − H_R))                    p = R/n, q = (R − 1)/(n − 1), H_R = Σ_{i=1..R} 1/i
    R-Precision, true_R@1        p

The middle line: rel(i) P(i) = rel(i) (1 + matches before i) / i, and rel(i) = 1 leaves (i − 1) q matches before i.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from equipoise.evaluation.retrieval import DIRECTIONS, RECALLS, Relevance, sums


def retrieval_chance(images: int, image_of_text: Tensor, relevance: Relevance | None = None) -> dict[str, float]:
    """Expected numbers of `retrieval` on the same data, by the same names."""
    labels = torch.as_tensor(image_of_text).cpu()
    texts = len(labels)
    matches = {"image_to_text": np.bincount(labels.numpy(), minlength=images), "text_to_image": np.ones(texts)}
    candidates = {"image_to_text": texts, "text_to_image": images}
    numbers: dict[str, float] = {}
    for axis, direction in enumerate(DIRECTIONS):
        labelled = matches[direction][matches[direction] > 0]
        for k in RECALLS:
            numbers[f"{direction}_R@{k}"] = float(any_hit(labelled, candidates[direction], k).mean())
        if relevance is None:
            continue
        true = np.asarray(relevance.sum(1 - axis)).astype(float)
        if (true := true[true > 0]).size:
            share = float((true / candidates[direction]).mean())
            numbers[f"{direction}_mAP@R"] = float(average_precision(true, candidates[direction]).mean())
            numbers |= {f"{direction}_R-Precision": share, f"{direction}_true_R@1": share}
    return numbers | sums(numbers)


def zero_shot_chance(classes: int) -> dict[str, float]:
    """Expected numbers of `zero_shot` when one of `classes` is guessed."""
    guess = {"acc1": 1 / classes, "mean_per_class_recall": 1 / classes}
    return guess | ({"acc5": 5 / classes} if classes >= 5 else {})


def geometry_chance() -> dict[str, float]:
    """Of `geometry`, what does not depend on the space: half of all negatives are above a match at random."""
    return {f"{direction}_negatives_above": 0.5 for direction in DIRECTIONS}


def any_hit(matches: np.ndarray, candidates: int, k: int) -> np.ndarray:
    """Probability that k of `candidates`, drawn at random, hold at least one match."""
    miss = np.ones(len(matches))
    for drawn in range(min(k, candidates)):
        miss *= np.clip((candidates - matches - drawn) / (candidates - drawn), 0, 1)
    return 1 - miss


def average_precision(matches: np.ndarray, candidates: int) -> np.ndarray:
    """Expected average precision at R of a random ranking."""
    harmonic = np.cumsum(1 / np.arange(1, matches.max() + 1))[matches.astype(int) - 1]
    another = (matches - 1) / max(candidates - 1, 1)
    return (harmonic + another * (matches - harmonic)) / candidates
