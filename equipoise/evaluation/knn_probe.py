"""k nearest neighbours: the class that the closest training pictures vote for, with nothing trained at all.

Wu et al. 2018, "Unsupervised Feature Learning via Non-Parametric Instance Discrimination", §3.4, as Caron et al. 2021
(DINO) use it: of the k training features with the largest cosine, each votes for its class by

    score_c(x) = Σ_{i in k nearest of x, y_i = c} exp( cos(x, x_i) / 0.07 )

k is 10, 20, 100 or 200, as many as there are records for. DINO prints all of them, of test data; here validation data
choose, and the votes on test data are those of training and validation data together. Queries are compared a tile of
the training data at a time. Ties are broken against the model: a class is voted for only if strictly ahead.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from equipoise.evaluation.linear_probe import Labelled, LinearProbe, class_count, joined, require_labelled
from equipoise.evaluation.metrics import Metric
from equipoise.evaluation.zeroshot import zero_shot_chance

METRICS = {
    "knn_acc1": Metric("accuracy", "Share of images whose class their nearest training images vote for."),
    "knn_acc5": Metric("top-5 accuracy", "Share of images whose class is among the first five."),
    "knn_mean_per_class_recall": Metric("mean per-class recall", "Its accuracy averaged over classes."),
}
NEIGHBOURS = (10, 20, 100, 200)
TEMPERATURE = 0.07
QUERIES, TILE = 1024, 8192


def probe_knn(
    train: Labelled, validation: Labelled, test: Labelled, neighbours: Sequence[int] = NEIGHBOURS
) -> LinearProbe:
    """The number of neighbours that does best on validation data, on test data."""
    require_labelled(train, validation, test)
    count = class_count(train, validation, test)
    tried = sorted({min(k, len(train.classes)) for k in neighbours})
    found = {k: knn_accuracies(train, validation, k, count)["knn_acc1"] for k in tried}
    best = max(found, key=lambda k: (found[k], -k))  # of equals, the fewest
    metrics = knn_accuracies(joined(train, validation), test, best, count)
    return LinearProbe(metrics, best, tuple(found.items()))


def knn_accuracies(train: Labelled, test: Labelled, k: int, classes: int) -> dict[str, float]:
    """Accuracies by the votes of k neighbours."""
    known = Labelled(F.normalize(train.features.float(), dim=1), train.classes)
    places = []
    for features, truth in zip(test.features.split(QUERIES), test.classes.split(QUERIES), strict=True):
        votes = knn_votes(known, F.normalize(features.float(), dim=1), k, classes)
        places.append((votes >= votes.gather(1, truth[:, None])).sum(dim=1))
    place = torch.cat(places)
    right = (place == 1).double()
    recalls = torch.stack([right[test.classes == one].mean() for one in test.classes.unique()])
    numbers = {"knn_acc1": float(right.mean()), "knn_mean_per_class_recall": float(recalls.mean())}
    return numbers | ({"knn_acc5": float((place <= 5).double().mean())} if classes >= 5 else {})


def knn_votes(train: Labelled, queries: Tensor, k: int, classes: int) -> Tensor:
    """Votes [N, classes] for queries of length 1 [N, w], divided by exp(1/0.07)."""
    closest = queries.new_empty(len(queries), 0)
    voted = torch.empty(len(queries), 0, dtype=torch.long)
    for features, labels in zip(train.features.split(TILE), train.classes.split(TILE), strict=True):
        closest = torch.cat([closest, queries @ features.T], dim=1)
        voted = torch.cat([voted, labels.expand(len(queries), -1)], dim=1)
        closest, order = closest.topk(min(k, closest.shape[1]), dim=1)
        voted = voted.gather(1, order)
    weights = ((closest.double() - 1) / TEMPERATURE).exp()
    return torch.zeros(len(queries), classes, dtype=torch.float64).scatter_add_(1, voted, weights)


def knn_chance(classes: int) -> dict[str, float]:
    """Expected values when one of `classes` is guessed."""
    return {f"knn_{name}": value for name, value in zero_shot_chance(classes).items()}
