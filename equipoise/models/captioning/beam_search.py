"""Captions that are likely as a whole: the best few prefixes are kept at every word.

    score(caption) = Σ_j log p(word_j | before) / length^α          length: tokens with start and end; α length_penalty

Each picture has `beams` prefixes. Of all their continuations the 2·beams likeliest are looked at: those among the first
`beams` that end are captions, the first `beams` others the next prefixes. A picture is done once it has `beams`
captions, none of which is worse than what its likeliest continuation would score now. Prefixes that reach the longest
length count as captions. This is the rule of transformers' BeamSearchScorer (Wolf et al. 2020), which open_clip uses;
there the words' raw logits are summed, here their log-probabilities.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional as F

from equipoise.models.captioning.next_word import Next, Specials, finite, until
from equipoise.models.captioning.settings import Decoding

LOWEST = -1e9  # of prefixes that are no more than copies of the first, at the start
Reorder = Callable[[Tensor], None]
log_probabilities: Callable[[Tensor], Tensor] = partial(torch.log_softmax, dim=-1)


@dataclass
class _Captions:
    """The best captions of each picture so far, at most `beams`."""

    scores: Tensor  # [N, beams], -inf where there is none
    ids: Tensor  # [N, beams, longest], with `end` behind each
    end: int
    done: Tensor = field(init=False)  # [N]

    def __post_init__(self) -> None:
        self.done = torch.zeros(len(self.scores), dtype=torch.bool, device=self.scores.device)

    def add(self, scores: Tensor, ids: Tensor) -> None:
        """Add captions [N, k, L] with scores [N, k]; -inf, or a picture that is done, adds none."""
        width, room = ids.shape[2], self.ids.shape[2]
        ids = F.pad(ids, (0, room - width), value=self.end)
        scores = scores.masked_fill(self.done[:, None], -torch.inf)
        everything = torch.cat([self.scores, scores], 1)
        self.scores, kept = everything.topk(self.scores.shape[1], 1)
        self.ids = torch.cat([self.ids, ids], 1).gather(1, kept[..., None].expand(-1, -1, room))


@torch.no_grad()
def beam_search(
    next_logits: Next,
    reorder: Reorder,
    specials: Specials,
    settings: Decoding,
    longest: int,
    pictures: int,
    device: torch.device,
    score: Callable[[Tensor], Tensor] = log_probabilities,
) -> list[list[int]]:
    """Ids of the best caption of each picture, between start and end; `reorder` tells which prefix became which."""
    n, b = pictures, settings.beams
    ids = torch.full((n * b, 1), specials.start, device=device)
    sums = torch.full((n, b), LOWEST, device=device, dtype=torch.float64)
    sums[:, 0] = 0.0
    found = _Captions(sums.new_full((n, b), -torch.inf), ids.new_full((n, b, longest), specials.end), specials.end)
    first = torch.arange(n, device=device)[:, None] * b
    while ids.shape[1] < longest and not bool(found.done.all()):
        length = ids.shape[1]
        scores = specials.allowed(score(finite(next_logits(ids))).double(), length, settings.shortest)
        total, place = (sums[..., None] + scores.view(n, b, -1)).flatten(1).topk(2 * b, 1)
        beam, word = place // scores.shape[1], place % scores.shape[1]
        ends = word == specials.end
        best = torch.arange(2 * b, device=device) < b
        finished = (total / (length + 1) ** settings.length_penalty).masked_fill(~(ends & best), -torch.inf)
        found.add(finished, ids[(first + beam).flatten()].view(n, 2 * b, length))
        attainable = total[:, 0] / (length + 1) ** settings.length_penalty
        found.done |= found.scores[:, -1] >= attainable
        on = (torch.arange(2 * b, device=device) + ends * 2 * b).argsort(1)[:, :b]  # the first that do not end
        sums, rows = total.gather(1, on), (first + beam.gather(1, on)).flatten()
        ids = torch.cat([ids[rows], word.gather(1, on).flatten()[:, None]], 1)
        reorder(rows)
    found.add(sums / ids.shape[1] ** settings.length_penalty, ids.view(n, b, -1))
    best_ids = found.ids[:, 0, 1:].tolist()
    return [until(row, specials.end) for row in best_ids]
