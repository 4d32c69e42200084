"""How two clouds of matched points lie: alignment, uniformity, the gap between them, and how hard negatives are.

Oh et al. 2023, "Geodesic Multi-Modal Mixup for Robust Fine-Tuning", §3 (Eq. 2-3), App. C.4; Wang & Isola 2020
(uniformity); Liang et al. 2022 (the gap).

    alignment    -mean_i [ ‖u_i - v_i‖² - min_{k≠i} ‖u_i - v_k‖² ]           positive: matches are closer than others
    uniformity   -log mean_{x≠y} exp(-2 ‖x - y‖²)                            x, y over both clouds together
    gap          ‖mean u - mean v‖

u, v [N, d] images and texts of N pairs, N >= 2. Larger alignment and uniformity are better. The released code leaves
the texts out of uniformity and takes each point's distance to itself in; not so here. Distances are those of the flat
vectors: on a product of m spheres they reach 2√m, so numbers of different spaces cannot be compared. In a space
without geodesics (sets of vectors) distances of flat vectors mean nothing and are left out.
Blocks of N × N numbers exist one at a time, never N × N × d.
"""

from __future__ import annotations

import math
from itertools import pairwise

import torch
from torch import Tensor

from equipoise.data.source import Source
from equipoise.evaluation.encoding import Encoded, at_least_float32, has_captions
from equipoise.evaluation.evaluator import EvalResult, Evaluator
from equipoise.evaluation.metrics import DIRECTIONS, Metric, both_directions
from equipoise.spaces import Space, hardness
from equipoise.spaces.pairwise import straight
from equipoise.types import UserError

AT_ONCE = 1024  # rows and columns of a block


METRICS = {
    **both_directions({
        "alignment": Metric(
            "alignment", "How much closer matches are than the closest others, in squared distances.", "plain"
        ),
        "closest_negative": Metric(
            "closest negative", "Mean similarity to the closest one that does not belong.", "plain"
        ),
        "negatives_above": Metric(
            "negatives above the match", "Share of what does not belong and yet is closer than the match."
        ),
    }),
    "uniformity": Metric(
        "uniformity", "How evenly all points are spread: -log mean exp(-2 distance²). Larger is more even.", "plain"
    ),
    "modality_gap": Metric(
        "modality gap", "Distance between the mean of all images and the mean of all texts.", "plain"
    ),
    "positive_similarity": Metric(
        "similarity of matches", "Mean similarity of an image and its own caption.", "plain"
    ),
}  # fmt: skip


class Geometry(Evaluator):
    """Measures how every image and its first caption lie, not how they rank.

    Empty where there are not two such pairs."""

    task = "zeroshot_retrieval"
    cites = ("wang2020uniformity", "liang2022gap")
    metrics = METRICS

    def applies(self, source: Source) -> bool:
        return has_captions(source)

    def __call__(self, encoded: Encoded) -> EvalResult:
        images = encoded.images
        captions, points = encoded.captions(encoded.per_image)
        owners = captions.image_of_text
        first = torch.diff(owners, prepend=owners.new_tensor([-1])) != 0  # captions come in the order of images
        if int(first.sum()) < 2:
            return EvalResult({}, {})
        texts = points[first.to(points.device)]
        metrics = geometry(images[owners[first].to(images.device)], texts, encoded.model.space)
        return EvalResult(metrics, geometry_chance())


def geometry_chance() -> dict[str, float]:
    """What does not depend on the space: half of all negatives are above a match at random."""
    return {f"{direction}_negatives_above": 0.5 for direction in DIRECTIONS}


@torch.no_grad()
def geometry(images: Tensor, texts: Tensor, space: Space) -> dict[str, float]:
    """Metrics by name, both ways where they have a direction: pair i is image i and text i."""
    images, texts = at_least_float32(images), at_least_float32(texts)
    by_image, by_text = hardness(images, texts, space=space), hardness(texts, images, space=space)
    numbers = {"positive_similarity": float(by_image.positive.mean())}
    for direction, found in (("image_to_text", by_image), ("text_to_image", by_text)):
        numbers[f"{direction}_closest_negative"] = float(found.closest.mean())
        numbers[f"{direction}_negatives_above"] = float(found.above.mean())
    if not space.has_geodesics:
        return numbers
    return {
        "image_to_text_alignment": alignment(images, texts),
        "text_to_image_alignment": alignment(texts, images),
        "uniformity": uniformity(images, texts),
        "modality_gap": modality_gap(images, texts),
        **numbers,
    }


@torch.no_grad()
def alignment(anchors: Tensor, others: Tensor) -> float:
    """How much closer the anchors' matches are than the closest of the rest, in squares."""
    _require_pairs(anchors, others)
    closest = []
    for start, stop in _spans(len(anchors)):
        parts = []
        for first, last in _spans(len(others)):
            squares = straight(anchors[start:stop], others[first:last]).square_()
            rows, cols = (torch.arange(*span, device=squares.device) for span in ((start, stop), (first, last)))
            parts.append(squares.masked_fill_(rows[:, None] == cols, torch.inf).amin(1))
        closest.append(torch.stack(parts).amin(0))
    own = (anchors - others).square().sum(1)
    return float((torch.cat(closest) - own).double().mean())


@torch.no_grad()
def uniformity(images: Tensor, texts: Tensor) -> float:
    """How evenly both clouds together are spread: every pair of different points once."""
    _require_pairs(images, texts)
    points = torch.cat([images, texts])
    logs = []
    for start, stop in _spans(len(points)):
        for first, last in _spans(len(points)):
            if first < start:
                continue  # seen from the other side
            exponents = straight(points[start:stop], points[first:last]).square_().double().mul_(-2)
            if first == start:
                upper = torch.ones_like(exponents, dtype=torch.bool).triu_(1)
                exponents.masked_fill_(~upper, -torch.inf)
            logs.append(torch.logsumexp(exponents.flatten(), 0))
    count = len(points) * (len(points) - 1) / 2
    return math.log(count) - float(torch.logsumexp(torch.stack(logs), 0))


@torch.no_grad()
def modality_gap(images: Tensor, texts: Tensor) -> float:
    return float((images.double().mean(0) - texts.double().mean(0)).norm())


def _spans(length: int) -> list[tuple[int, int]]:
    return list(pairwise([*range(0, length, AT_ONCE), length]))


def _require_pairs(u: Tensor, v: Tensor) -> None:
    if u.shape != v.shape or u.ndim != 2 or len(u) < 2:
        raise UserError(f"give points of at least two pairs, [N, d] each, not {list(u.shape)} and {list(v.shape)}")
