"""A space in which a few similarities of each row are given, and all others are computed: mixed batches need that.

    s(i, j) = value of i's pin            where j is the column it is pinned to
            = s_of(u_i, v_j)              elsewhere

A mixup exchanges some N of the N × N similarities (the diagonal, say). Rows carry where they are pinned and to what,
columns carry their number, as further numbers behind the point [d]; so any block knows its pins, whoever visits the
blocks, and gradients find their way into the values. Numbers are floats here: exact below 2^24.

    rows [N, d + 2k] = point, k columns, k values           cols [N, d + 2k] = point, number, zeros
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.nn import functional as F

from equipoise.spaces.space import Space

Pin = tuple[Tensor, Tensor]  # the column of every row [N], and their similarity [N]
EXACT = 1 << 24  # whole numbers that a float32 can tell apart


@dataclass(frozen=True)
class Pinned(Space):
    of: Space
    pins: int
    dim: int = field(default=None, kw_only=True)  # type: ignore[assignment]  # of the space, and two a pin

    def __post_init__(self) -> None:
        object.__setattr__(self, "dim", self.of.dim + 2 * self.pins)

    def project(self, vectors: Tensor) -> Tensor:
        points, told = vectors.split((self.of.dim, 2 * self.pins), dim=-1)
        return torch.cat([self.of.project(points), told], dim=-1)

    def similarity(self, rows: Tensor, cols: Tensor) -> Tensor:
        points, places, values = rows.split((self.of.dim, self.pins, self.pins), dim=1)
        found = self.of.similarity(points, cols[:, : self.of.dim])
        number = cols.detach()[:, self.of.dim]
        for place, value in zip(places.detach().T, values.T, strict=True):
            if bool(((place >= number.min()) & (place <= number.max())).any()):  # else the block has none of these pins
                found = torch.where(place[:, None] == number, value[:, None], found)
        return found

    @property
    def range(self) -> tuple[float, float]:
        return self.of.range


def pinned(rows: Tensor, cols: Tensor, pins: Sequence[Pin], *, space: Space) -> tuple[Tensor, Tensor, Pinned]:
    """Rows [N, d] and columns [M, d] of the space with these pins, and that space. Of two pins in one place the later
    counts."""
    assert len(cols) < EXACT, "numbers of columns must be exact"
    exact = torch.promote_types(rows.dtype, torch.float32)
    where, values = (torch.stack([pin[part].to(rows.device, exact) for pin in pins], dim=1) for part in (0, 1))
    number = torch.arange(len(cols), dtype=exact, device=cols.device)[:, None]
    told = F.pad(number, (0, 2 * len(pins) - 1))
    return torch.cat([rows.to(exact), where, values], 1), torch.cat([cols.to(exact), told], 1), Pinned(space, len(pins))
