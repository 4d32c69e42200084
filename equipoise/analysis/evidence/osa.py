"""OSA's orthogonal weight: nothing below the similarity of noise, most in the middle, little for what is known well.

Li et al. 2024, "One-step Noisy Label Mitigation", by the frozen model that is the judge.

    x_i = [s_i - β]₊ / max_j [s_j - β]₊        w_i = x_i² (1 - x_i) (1 + x_i)        0 ≤ w ≤ ¼

s_i the similarity of pair i, j its batch of 256; β is the mean similarity of noise with noise, where unrelated points
lie: pictures of random pixels with texts of random words; of features, draws with the mean and the spread of the data's
in each dimension. It weighs pairs and is no probability, so it goes with `clean.rule = "weights"` alone. The pair that
fits best in its batch gets 0, as in their code. There w multiplies the loss; here it is divided by its mean over the
batch (`targets/weighted.py`).
"""

from __future__ import annotations

import torch
from torch import Tensor

from equipoise.analysis.evidence.judged import JudgedPairs
from equipoise.analysis.evidence.random_batches import random_batches
from equipoise.analysis.noise import own_similarity
from equipoise.data.source import Source, has_features
from equipoise.models.model import Model
from equipoise.types import UserError

BATCH = 256
WORDS = 8  # of a random text


def osa(judged: JudgedPairs) -> Tensor:
    own = own_similarity(judged.points, judged.model.space.similarity)
    images, texts = noise_points(judged.model, judged.source, judged.seed)
    anchor = float(judged.model.space.similarity(images, texts).double().mean())
    return orthogonal_weights(own, anchor, random_batches(len(own), BATCH, judged.seed))


def orthogonal_weights(similarity: Tensor, anchor: float, batches: list[Tensor]) -> Tensor:
    """w of every pair [M]; 0 in a batch of which no pair is above the anchor."""
    above = (similarity - anchor).clamp_min(0)
    share = torch.zeros_like(above)
    for rows in batches:
        share[rows] = above[rows] / above[rows].max().clamp_min(torch.finfo(above.dtype).tiny)
    return share**2 * (1 - share) * (1 + share)


def noise_points(model: Model, source: Source, seed: int) -> tuple[Tensor, Tensor]:
    """Points of `BATCH` images and texts [BATCH, d] that mean nothing."""
    generator = torch.Generator().manual_seed(seed)
    some = torch.randperm(len(source), generator=generator)[:BATCH].tolist()
    if has_features(source):
        images = model.encode_image(_drawn_like(*source.image_features(some), generator))
    else:
        size = model.preprocess.size
        images = model.encode_image(torch.randint(256, (BATCH, 3, size, size), generator=generator, dtype=torch.uint8))
    if has_features(source) and source.text_width is not None:
        texts = model.encode_text(_drawn_like(*source.text_features(some, 1)[:2], generator))
    else:
        texts = model.encode_text(_random_texts(source, some, generator))
    return images.cpu(), texts.cpu()


def _drawn_like(features: Tensor, mask: Tensor | None, generator: torch.Generator) -> Tensor:
    """Gaussian draws [BATCH, ...] with the mean and the deviation of features [N, ..., w], those that are real."""
    real = features.flatten(0, -2) if mask is None else features[mask]
    noise = torch.randn(BATCH, *features.shape[1:], generator=generator)
    return real.mean(0) + real.std(0, unbiased=False) * noise


def _random_texts(source: Source, records: list[int], generator: torch.Generator) -> list[str]:
    words = sorted({word for record in records for text in source.pair(record).captions for word in text.split()})
    if not words:
        raise UserError(
            "osa compares with texts of random words, and these records have no words; choose other evidence"
        )
    drawn = torch.randint(len(words), (BATCH, WORDS), generator=generator).tolist()
    return [" ".join(words[number] for number in numbers) for numbers in drawn]
