"""Words one at a time: the likeliest, or drawn among the likeliest.

    greedy   argmax_v z_v
    top_k    v ~ softmax(z / τ) among the k largest z                    Fan et al. 2018
    top_p    v ~ softmax(z / τ) among the fewest with Σ softmax(z) ≥ p   Holtzman et al. 2020 (nucleus sampling)

A draw is a number in [0, 1) for each picture and place, so that a caption is the same whatever batch it is written in.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from equipoise.models.captioning.settings import Decoding
from equipoise.types import UserError

Next = Callable[[Tensor], Tensor]  # ids [N, L] to logits [N, V]


@dataclass(frozen=True)
class Specials:
    """Token ids that are no words."""

    start: int
    end: int
    never: tuple[int, ...] = ()  # that may not be written

    def allowed(self, scores: Tensor, length: int, shortest: int) -> Tensor:
        """Scores [N, V] with -inf for what may not follow captions of `length` tokens."""
        refused = [*self.never, *([self.end] if length < shortest else [])]
        return scores.index_fill(1, torch.tensor(refused, device=scores.device), -torch.inf) if refused else scores


@torch.no_grad()
def write_words(
    next_logits: Next, specials: Specials, settings: Decoding, longest: int, draws: Tensor, device: torch.device
) -> list[list[int]]:
    """Ids of captions between start and end; `draws` [N, longest] in [0, 1). One that does not end is cut off."""
    ids = torch.full((len(draws), 1), specials.start, device=device)
    ended = torch.zeros(len(draws), dtype=torch.bool, device=device)
    while ids.shape[1] + 1 < longest and not bool(ended.all()):
        length = ids.shape[1]
        logits = finite(next_logits(ids))
        words = chosen(specials.allowed(logits, length, settings.shortest), settings, draws[:, length])
        ids = torch.cat([ids, words.where(~ended, specials.end)[:, None]], 1)
        ended |= words == specials.end
    return [until(row, specials.end) for row in ids[:, 1:].tolist()]


def chosen(logits: Tensor, settings: Decoding, draws: Tensor) -> Tensor:
    """The next word of each caption [N]."""
    if settings.method == "greedy":
        return logits.argmax(1)
    ranked, words = logits.double().sort(1, descending=True)
    shares = (kept(ranked, settings) / settings.temperature).softmax(1)
    place = (shares.cumsum(1) <= draws.to(shares.device, shares.dtype)[:, None]).sum(1)
    last = (shares > 0).sum(1) - 1  # the sum of all may round below a draw
    return words.gather(1, place.minimum(last)[:, None])[:, 0]


def kept(ranked: Tensor, settings: Decoding) -> Tensor:
    """Logits [N, V], the largest first, with -inf for those that are not drawn among."""
    if settings.method == "top_k":
        return ranked.masked_fill(torch.arange(ranked.shape[1], device=ranked.device) >= settings.top_k, -torch.inf)
    shares = ranked.softmax(1)
    before = shares.cumsum(1) - shares
    before[:, 0] = 0.0  # the likeliest is always one of them
    return ranked.masked_fill(before >= settings.top_p, -torch.inf)


def until(ids: list[int], end: int) -> list[int]:
    """Ids before the end token."""
    return ids[: ids.index(end)] if end in ids else ids


def finite(logits: Tensor) -> Tensor:
    if not bool(logits.isfinite().all()):
        raise UserError(
            "the model gives logits that are NaN or infinite, so it writes no captions; its weights are bad"
        )
    return logits
