"""Hard negatives by lot: for each row one column, the likelier the more alike the two are.

Li et al. 2021 (ALBEF), §3.2: "we sample one negative text from the same mini-batch, where texts that are more similar
to the image have a higher chance to be sampled".

    P(i draws j) = exp z_ij / Σ_{k not excluded} exp z_ik        0 where j is excluded

z [R, C] logits. A row all of whose columns are excluded has no negative, which the caller is told. Logits that are no
numbers draw evenly, so that it is the loss which says that training diverged, and not the lottery.
"""

from __future__ import annotations

import torch
from torch import Tensor


@torch.no_grad()
def draw_negatives(logits: Tensor, excluded: Tensor) -> tuple[Tensor, Tensor]:
    """A column for each row [R], by torch's own random numbers, and bool [R], False for rows that have none."""
    some = ~excluded.all(1)
    allowed = torch.where(some[:, None], ~excluded, True)
    wide = logits.to(torch.promote_types(logits.dtype, torch.float32)).masked_fill(~allowed, -torch.inf)
    shares = wide.softmax(1)
    even = allowed.to(shares.dtype)
    sound = shares.isfinite().all(1, keepdim=True) & wide.amax(1, keepdim=True).isfinite()
    return torch.multinomial(torch.where(sound, shares, even), 1)[:, 0], some
