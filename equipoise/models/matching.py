"""Whether image and text belong together, asked of a model that fuses them (`heads/fusion.py`).

    log-odds = log p(they do) - log p(they do not)        of the fused class token, for one pair at a time

Points are compared by the million; this takes a pass of the fusion encoder for every pair, so it is for the few
candidates that points leave.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from equipoise.heads import FusionHead, Head
from equipoise.models.tower import Tower
from equipoise.types import UserError

Inputs = tuple[Tensor, ...]  # of an encoder: pictures or features with a mask of theirs, token ids with their mask


def matching_head(heads: Iterable[Head]) -> FusionHead | None:
    """The head that judges pairs; None where there is none."""
    return next((head for head in heads if isinstance(head, FusionHead) and head.match is not None), None)


@torch.no_grad()
def match_log_odds(
    head: FusionHead | None, image: tuple[Tower, Inputs], text: tuple[Tower, Inputs], pairs: Tensor
) -> Tensor:
    """Log-odds [P] of pairs [P, 2] of numbers of images and of texts, each of which its tower encodes once."""
    if head is None:
        raise UserError(
            "this model has no matching head, so that it cannot judge pairs; train one by the objective albef or tcl"
        )
    seen, told = (tower.sequence(tower.features(*inputs, with_tokens=True)) for tower, inputs in (image, text))
    of_images, of_texts = pairs.to(seen[0].device).unbind(1)
    chosen = ((tokens[rows], mask[rows]) for (tokens, mask), rows in ((told, of_texts), (seen, of_images)))
    logits = head.match_logits(*chosen)
    return (logits[:, 1] - logits[:, 0]).to(torch.promote_types(logits.dtype, torch.float32))
