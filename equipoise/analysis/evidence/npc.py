"""NPC's weight: a pair counts less if a step on it makes clean pairs that are like it worse.

Zhang et al. 2024, "Negative Pre-aware for Noisy Cross-Modal Matching", steps 1 and 2.

    bank     pairs whose loss ℓ is of the lower of two Gaussians with a posterior above 0.9
    b_i, c_i the pairs of the bank whose image is nearest to image i, whose text is nearest to text i
    θ'       a copy of the judge after one step on the batch of pair i
    w_i      = ½ (ℓ(b_i; θ) / ℓ(b_i; θ') + ℓ(c_i; θ) / ℓ(c_i; θ')),   tanh(w_i) where it is below 1, else 1

ℓ is -½ (log p→ + log p←) of `random_batches.py`, that of a bank pair among the bank pairs of the batch. The step is the
first one of Adam, learning rate · g / (|g| + ε), by the rate of the recipe. The paper weighs each batch by the model
that is being trained; here it is the judge, once. The code they released differs from the paper: its loss of a batch is
a mean already, so that weights come down to one factor for the whole batch, the loss on the bank that it adds carries
no gradient, and the step of the copy is taken on a gradient that was added up twice.
"""

from __future__ import annotations

from copy import deepcopy

import torch
from torch import Tensor

from equipoise.analysis.evidence.judged import JudgedPairs
from equipoise.analysis.evidence.random_batches import BATCH, match_log_probabilities, random_batches
from equipoise.analysis.gaussian_mixture import lower_posterior
from equipoise.data.source import Source, has_features
from equipoise.evaluation.encoding import Captions, captions
from equipoise.models.model import Model
from equipoise.spaces import Space

SURE = 0.9  # posterior of a pair of the bank
TILE = 1024  # rows compared with columns at once
EPSILON = 1e-8  # of Adam


def npc(judged: JudgedPairs) -> Tensor:
    points, space = judged.points, judged.model.space
    batches = random_batches(len(points.texts), BATCH, judged.seed)
    loss = -match_log_probabilities(points, space.similarity, judged.scale, batches).mean(0)
    bank = torch.from_numpy(lower_posterior(loss.numpy()) > SURE).nonzero().flatten()
    if not len(bank):  # no pair is sure, so none can be said to be made worse
        return torch.ones_like(loss)
    images = points.images[points.image_of_text]
    near = torch.stack([bank[nearest(side, side[bank], space)] for side in (images, points.texts)])
    weights = torch.zeros_like(loss)
    texts, copy = captions(judged.source, 0), deepcopy(judged.model).eval()
    for rows in batches:
        copy.load_state_dict(judged.model.state_dict())
        before = _bank_losses(copy, judged.source, texts, near[:, rows])
        step(copy, judged.source, texts, rows, judged.learning_rate)
        after = _bank_losses(copy, judged.source, texts, near[:, rows])
        weights[rows] = npc_weights(before, after)
    return weights


def npc_weights(before: Tensor, after: Tensor) -> Tensor:
    """w [B] of the losses of both bank pairs [2, B]."""
    tiny = torch.finfo(before.dtype).tiny
    weight = ((before + tiny) / (after + tiny)).mean(0)
    return torch.where(weight < 1, weight.tanh(), 1.0)


def nearest(points: Tensor, bank: Tensor, space: Space, tile: int = TILE) -> Tensor:
    """The number of the nearest point of the bank to each point [N], found tile by tile."""
    best = torch.full((len(points),), -torch.inf)
    found = torch.zeros(len(points), dtype=torch.long)
    for row in range(0, len(points), tile):
        for column in range(0, len(bank), tile):
            rows = slice(row, row + tile)
            value, place = space.similarity(points[rows], bank[column : column + tile]).float().max(dim=1)
            better = value > best[rows]
            best[rows] = torch.where(better, value, best[rows])
            found[rows] = torch.where(better, place + column, found[rows])
    return found


def step(model: Model, source: Source, texts: Captions, rows: Tensor, rate: float) -> None:
    """Take the first step of Adam on the InfoNCE of these texts and their images."""
    model.zero_grad(set_to_none=True)
    _losses(model, source, texts, rows).mean().backward()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.grad is not None:
                parameter.sub_(rate * parameter.grad / (parameter.grad.abs() + EPSILON))
    model.clamp_()


@torch.no_grad()
def _bank_losses(model: Model, source: Source, texts: Captions, near: Tensor) -> Tensor:
    return torch.stack([_losses(model, source, texts, rows) for rows in near]).double().cpu()


def _losses(model: Model, source: Source, texts: Captions, rows: Tensor) -> Tensor:
    """ℓ of these texts with their images [B], each among all of them."""
    images = _images(model, source, texts.image_of_text[rows].tolist())
    logits = model.log_scale.exp() * model.space.similarity(images, _texts(model, texts, rows))
    return -(logits.log_softmax(1).diagonal() + logits.log_softmax(0).diagonal()) / 2


def _images(model: Model, source: Source, records: list[int]) -> Tensor:
    if has_features(source):
        features, mask = source.image_features(records)
    else:
        features, mask = source.images(records, model.preprocess.side, model.device), None
    prepared = model.image_encoder.prepare(features, model.preprocess).to(model.device)
    return model.image_points(prepared, None if mask is None else mask.to(model.device))


def _texts(model: Model, texts: Captions, rows: Tensor) -> Tensor:
    if texts.features is None:
        chosen, mask = [texts.texts[row] for row in rows.tolist()], None
        ids, real = model.text_encoder.prepare(chosen, mask, model.tokenizer)
    else:
        values, mask = texts.features
        ids, real = model.text_encoder.prepare(values[rows], None if mask is None else mask[rows], model.tokenizer)
    return model.tower("text").points(ids.to(model.device), real.to(model.device))
