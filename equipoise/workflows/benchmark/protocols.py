"""The protocol of each task, on cached points: metrics, what guessing scores, and intervals by the bootstrap.

Numbers are those of the peers on the same points: labelled pairs alone (copies are misses), the first captions of each
picture, prompts averaged as embeddings (CLIP_benchmark); relevance and ranks as in eccv_caption.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from equipoise.data.annotations.caption_ids import CaptionIds, caption_ids
from equipoise.data.annotations.graded_pairs import KINDS, read_graded
from equipoise.data.annotations.relevance_files import read_relevance
from equipoise.data.benchmark_sets.caption_set import CaptionSet
from equipoise.data.benchmark_sets.class_parts import Numbers, among
from equipoise.data.benchmark_sets.class_set import ClassSet
from equipoise.data.benchmark_sets.find import Found
from equipoise.data.benchmark_sets.instance_set import InstanceSet
from equipoise.data.benchmark_sets.set_spec import SetSpec
from equipoise.evaluation.bootstrap import interval, resampled_means, resampled_recall
from equipoise.evaluation.encoding import captions, fill
from equipoise.evaluation.folds import chance_in_folds, ranks_in_folds
from equipoise.evaluation.graded_similarity import graded_correlation
from equipoise.evaluation.instance_retrieval import instance_precision, revisited
from equipoise.evaluation.metrics import DIRECTIONS
from equipoise.evaluation.ranking import RECALLS, QueryRanks, rank_queries, retrieval_chance, sums
from equipoise.evaluation.relevance import SparseRelevance, join
from equipoise.evaluation.zeroshot import SpaceLike, classify, zero_shot_chance
from equipoise.workflows.benchmark.features import (
    CachedFeatures,
    digest,
    paired_similarity,
    pictures_digest,
    texts_digest,
)

CHUNK = 1024
PRECISIONS = ("mAP@R", "R-Precision", "R@1")
Parts = Mapping[str, Numbers]  # classes of a set that shifts of it have, by shift


@dataclass
class CellResult:
    """What one model scores on one set."""

    metrics: dict[str, float] = field(default_factory=dict)
    chance: dict[str, float] = field(default_factory=dict)
    intervals: dict[str, tuple[float, float]] = field(default_factory=dict)
    notes: dict[str, Any] = field(default_factory=dict)

    def add(self, values: Mapping[str, float], samples: Mapping[str, np.ndarray]) -> None:
        self.metrics |= values
        self.intervals |= {name: interval(drawn) for name, drawn in samples.items()}


def content_of(found: Found, spec: SetSpec, parts: Parts) -> str:
    """A digest of all of a set that decides numbers."""
    about = repr((spec.task, spec.captions, spec.folds, sorted(parts.items())))
    if isinstance(found, ClassSet):
        words = (*found.names, *found.templates, *map(str, found.labels))
        return digest((about, pictures_digest(found.source), *words))
    if isinstance(found, InstanceSet):
        pictures = (pictures_digest(found.queries), pictures_digest(found.database))
        return digest((about, *pictures, repr((found.truth, found.blocks))))
    chosen = captions(found.source, spec.captions)
    files = [*found.relevance.values(), *found.grades.values(), *([found.annotations] if found.annotations else [])]
    owners = repr(chosen.image_of_text.tolist())
    images = pictures_digest(found.source)  # type: ignore[arg-type]
    return digest((about, images, texts_digest(chosen.texts), owners, *(file.read_bytes() for file in files)))


def evaluate_set(features: CachedFeatures, found: Found, spec: SetSpec, parts: Parts) -> CellResult:
    """The numbers of a model on a set, and on the classes of each of its `parts`."""
    if isinstance(found, ClassSet):
        return _classes(features, found, parts)
    return _instances(features, found) if isinstance(found, InstanceSet) else _captions(features, found, spec)


def _classes(features: CachedFeatures, found: ClassSet, parts: Parts) -> CellResult:
    prompts = [text for several in fill(found.templates, found.names) for text in several]
    shape = (len(found.names), len(found.templates))
    points, labels = features.texts(prompts).unflatten(0, shape), torch.tensor(found.labels)
    images = features.images(found.source)
    places, predicted = classify(images, labels, points, features.embedder.space, "embedding", CHUNK)
    truth, right = labels.numpy(), (predicted.cpu() == labels).numpy().astype(float)
    # acc1 goes by places: a class that ties with the true one is before it
    hits = {f"acc{k}": (places.cpu() <= k).double().numpy()[:, None] for k in (1, 5) if len(found.names) >= k}
    if len(found.names) < 5:
        hits.pop("acc5", None)
    recalls = [right[truth == number].mean() for number in np.unique(truth)]
    result = CellResult(chance=zero_shot_chance(len(found.names)), notes={"pictures": len(truth), "classes": shape[0]})
    result.add(
        {name: float(hit.mean()) for name, hit in hits.items()},
        {name: resampled_means(hit, np.ones_like(hit))[:, 0] for name, hit in hits.items()},
    )
    recall = "mean_per_class_recall"
    result.add({recall: float(np.mean(recalls))}, {recall: resampled_recall(right, truth, shape[0])})
    for name, numbers in parts.items():
        hit = _hits_among(numbers, images, labels, points, features.embedder.space)
        key = among("acc1", name)
        result.add({key: float(hit.mean())}, {key: resampled_means(hit, np.ones_like(hit))[:, 0]})
        result.notes[among("pictures", name)] = len(hit)
    return result


def _hits_among(numbers: Sequence[int], images: Tensor, labels: Tensor, points: Tensor, space: SpaceLike) -> np.ndarray:
    """Whether each picture of these classes is recognised among these classes alone [n, 1]."""
    chosen = torch.tensor(numbers)
    of_class = torch.full((len(points),), -1)
    of_class[chosen] = torch.arange(len(chosen))
    kept = of_class[labels] >= 0
    places, _ = classify(images[kept], of_class[labels[kept]], points[chosen], space, "embedding", CHUNK)
    return (places.cpu() == 1).double().numpy()[:, None]


def _captions(features: CachedFeatures, found: CaptionSet, spec: SetSpec) -> CellResult:
    chosen = captions(found.source, spec.captions)
    owners, space = chosen.image_of_text, features.embedder.space
    images, texts = features.images(found.source), features.texts(chosen.texts)  # type: ignore[arg-type]
    result = CellResult(notes={"pictures": len(images), "captions_per_image": f"{len(texts) / len(images):.3g}"})
    if spec.folds > 1:
        result.notes["folds"] = spec.folds
        result.chance = chance_in_folds(len(images), owners, spec.folds)
        ranks = ranks_in_folds(images, texts, space.similarity, owners, spec.folds, CHUNK)
        _add_recalls(result, ranks, owners)
        return result
    relevance = _relevance(found, owners.tolist(), result) if found.relevance else {}
    first = next(iter(relevance), None)
    ranks = rank_queries(images, texts, space.similarity, owners, relevance.get(first or ""), CHUNK)
    result.chance = retrieval_chance(len(images), owners)
    _add_recalls(result, ranks, owners)
    for name, one in relevance.items():
        again = ranks if name == first else rank_queries(images, texts, space.similarity, owners, one, CHUNK)
        _add_precisions(result, name, again, owners)
    if found.grades:
        _add_grades(result, found, owners.tolist(), images, texts, features)
    return result


def _relevance(found: CaptionSet, owners: Sequence[int], result: CellResult) -> dict[str, SparseRelevance]:
    ids = caption_ids(found.source, found.annotations)
    texts, relevance = ids.of_texts(owners), {}
    for name, file in found.relevance.items():
        given = read_relevance(file)
        joined = join(ids.images, texts, given.by_image, given.by_caption, str(file))
        relevance[name] = joined.relevance
        result.notes[f"{name}_pairs"] = f"{joined.kept:,} of {joined.given:,}"
    return relevance


def _add_recalls(result: CellResult, ranks: Mapping[str, QueryRanks], owners: Tensor) -> None:
    values, samples = {}, {}
    for direction in DIRECTIONS:
        first = ranks[direction].first.cpu().numpy()
        asked = (first > 0).astype(float)
        hits = np.stack([(first <= k) * asked for k in RECALLS], axis=1)
        drawn = _resampled(hits, np.repeat(asked[:, None], len(RECALLS), axis=1), direction, owners)
        for column, k in enumerate(RECALLS):
            values[f"{direction}_R@{k}"] = float(hits[:, column].sum() / asked.sum())
            samples[f"{direction}_R@{k}"] = drawn[:, column]
    samples["mean_recall"] = np.mean(list(samples.values()), axis=0)
    result.add({**values, **sums(values)}, samples)


def _add_precisions(result: CellResult, name: str, ranks: Mapping[str, QueryRanks], owners: Tensor) -> None:
    for direction in DIRECTIONS:
        precise = ranks[direction].precise.cpu().numpy()
        asked = (~np.isnan(precise)).astype(float)
        values = np.nan_to_num(precise)
        keys = [f"{direction}_{name}_{metric}" for metric in PRECISIONS]
        drawn = _resampled(values, asked, direction, owners)
        means = values.sum(axis=0) / asked.sum(axis=0)
        result.add(dict(zip(keys, means.tolist(), strict=True)), dict(zip(keys, drawn.T, strict=True)))
        result.metrics[f"{direction}_{name}_queries"] = float(asked[:, 0].sum())


def _resampled(values: np.ndarray, asked: np.ndarray, direction: str, owners: Tensor) -> np.ndarray:
    """Samples of means over queries; images are drawn, with their captions."""
    if direction == "image_to_text":
        return resampled_means(values, asked)
    units, owner = int(owners.max()) + 1, owners.numpy()
    sums_of, counts = (np.zeros((units, values.shape[1])) for _ in range(2))
    np.add.at(sums_of, owner, values)
    np.add.at(counts, owner, asked)
    return resampled_means(sums_of, counts)


def _add_grades(
    result: CellResult,
    found: CaptionSet,
    owners: Sequence[int],
    images: Tensor,
    texts: Tensor,
    features: CachedFeatures,
) -> None:
    ids: CaptionIds = caption_ids(found.source, found.annotations)
    numbers = {
        "image": {name: number for number, name in enumerate(ids.images)},
        "caption": {name: number for number, name in enumerate(ids.of_texts(owners))},
    }
    points = {"image": images, "caption": texts}
    for kind, file in found.grades.items():
        given, (one, other) = read_graded(file, kind), KINDS[kind]
        kept = [
            (numbers[one][a], numbers[other][b], grade)
            for a, b, grade in zip(given.first, given.second, given.grades, strict=True)
            if a in numbers[one] and b in numbers[other]
        ]
        result.notes[f"{kind}_pairs"] = f"{len(kept):,} of {len(given.grades):,}"
        if len(kept) < 3:
            continue
        first, second, grades = (list(column) for column in zip(*kept, strict=True))
        similar = paired_similarity(features.embedder.space, points[one][first], points[other][second])
        measured = graded_correlation(similar.tolist(), grades, first)
        result.metrics |= {f"{kind}_spearman": measured.rho, f"{kind}_spearman_bootstrap": measured.mean}
        spread = 1.96 * measured.deviation
        result.intervals[f"{kind}_spearman_bootstrap"] = (measured.mean - spread, measured.mean + spread)


def _instances(features: CachedFeatures, found: InstanceSet) -> CellResult:
    queries, database = features.images(found.queries), features.images(found.database)
    result = CellResult(notes={"queries": len(queries), "pictures": len(database)})
    similarity = features.embedder.space.similarity
    if found.graded:
        for setup, one in revisited(queries, database, similarity, found.truth).items():
            _add_instances(result, {f"{setup}_mAP": one.average, f"{setup}_mP@10": one.at_k})
        return result
    positives = [one.easy for one in found.truth]
    precision = instance_precision(queries, database, similarity, positives, [()] * len(positives), k=1)
    _add_instances(result, {"mAP": precision.average, "R@1": precision.at_k})
    of_query = np.array(found.blocks)
    for block in dict.fromkeys(found.blocks):
        chosen = of_query == block
        _add_instances(result, {f"{block}_mAP": precision.average[chosen], f"{block}_R@1": precision.at_k[chosen]})
    return result


def _add_instances(result: CellResult, values: Mapping[str, np.ndarray]) -> None:
    for name, of_queries in values.items():
        known = of_queries[~np.isnan(of_queries)][:, None]
        if len(known):
            result.add({name: float(known.mean())}, {name: resampled_means(known, np.ones_like(known))[:, 0]})
