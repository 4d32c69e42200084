"""Sets of up to m unit vectors in n dimensions; two are as close as each vector is to its closest in the other set.

Yao et al. 2022, "FILIP: Fine-grained Interactive Language-Image Pre-Training", §3.1 (token-wise maximum).

    s_rows(u, v) = mean_{k real} max_{l real} <u_k, v_l>        s_cols(u, v) = s_rows(v, u)
    s = s_rows, s_cols or (`toward = "both"`) their mean        in [-1, 1]

u, v [n·m] flat: m parts of n numbers. A part that is zero is padding, which does not count; a unit vector is never
zero. So sets of different sizes are points like others. FILIP's loss takes s_rows for images among texts and s_cols for
texts among images (objectives/filip.py). What is compared at once is bounded: never R × C × m × m numbers, which are
made again for their gradient. There are no geodesics.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from equipoise.settings.bounds import bounded
from equipoise.spaces.space import Space
from equipoise.spaces.sphere import SMALLEST_NORM
from equipoise.types import UserError

TOWARD = ("both", "rows", "cols")
AT_ONCE = 1 << 24  # products of single vectors that exist at the same time


@dataclass(frozen=True)
class TokenSets(Space):
    cites: ClassVar[tuple[str, ...]] = ("yao2022filip",)

    n: int = bounded(256, 1, 2**20)  # dimensions of each vector
    m: int = bounded(77, 1, 2**20)  # the most vectors of a set
    toward: str = "both"  # both, rows (closest word of each patch), cols
    dim: int = field(default=None, kw_only=True)  # type: ignore[assignment]  # n·m; may be given, and must be that

    def __post_init__(self) -> None:
        if self.n < 2 or self.m < 1:
            raise UserError(f"n is {self.n} and m is {self.m}; a set has m >= 1 vectors of n >= 2 dimensions")
        if self.toward not in TOWARD:
            raise UserError(f"toward must be one of {', '.join(TOWARD)}, not {self.toward!r}")
        if self.dim not in (None, self.n * self.m):
            raise UserError(f"dim is {self.dim}, but n·m = {self.n}·{self.m} = {self.n * self.m}; leave dim out")
        object.__setattr__(self, "dim", self.n * self.m)

    def project(self, vectors: Tensor) -> Tensor:
        return F.normalize(vectors.unflatten(-1, (self.m, self.n)), dim=-1, eps=SMALLEST_NORM).flatten(-2)

    def similarity(self, rows: Tensor, cols: Tensor) -> Tensor:
        first, second = self._used(rows), self._used(cols)
        pairs = max(1, AT_ONCE // (first.shape[1] * second.shape[1]))  # of sets at a time
        wide = max(1, min(pairs, len(second)))
        row_chunks, col_chunks = first.split(max(1, pairs // wide)), second.split(wide)
        if len(row_chunks) == len(col_chunks) == 1:
            return self._block(first, second)
        return torch.cat([torch.cat([self._recomputed(u, v) for v in col_chunks], dim=1) for u in row_chunks])

    def _recomputed(self, rows: Tensor, cols: Tensor) -> Tensor:
        """`_block`, of which nothing is kept for backward."""
        block = checkpoint(self._block, rows, cols, use_reentrant=False)
        assert isinstance(block, Tensor)
        return block

    @property
    def range(self) -> tuple[float, float]:
        return (-1.0, 1.0)

    def _used(self, points: Tensor) -> Tensor:
        """Points as sets [N, k, n], without what is padding in all of them."""
        sets = points.unflatten(-1, (self.m, self.n))
        used = sets.detach().ne(0).any(-1).any(0).nonzero()
        return sets[:, : int(used[-1]) + 1 if len(used) else 1]

    def _block(self, rows: Tensor, cols: Tensor) -> Tensor:
        """Sets [R, k, n] and [C, l, n] to [R, C]."""
        close = torch.einsum("rkn,cln->rckl", rows, cols)
        real, other = (sets.detach().ne(0).any(-1) for sets in (rows, cols))
        pair = real[:, None, :, None] & other[None, :, None, :]
        close = close.masked_fill(~pair, -torch.inf)
        by_row = _mean_of_real(close.max(3).values, real[:, None])
        by_col = _mean_of_real(close.max(2).values, other[None])
        return {"rows": by_row, "cols": by_col, "both": (by_row + by_col) / 2}[self.toward]


def _mean_of_real(closest: Tensor, real: Tensor) -> Tensor:
    """[R, C, k] to [R, C]; an empty set is close to nothing: 0."""
    counted = real & closest.isfinite()
    return torch.where(counted, closest, 0).sum(-1) / real.sum(-1).clamp(min=1)
