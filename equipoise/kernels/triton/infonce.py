"""InfoNCE on inner products at the speed of matrix products: linear memory, exact gradients, no atomics.

    forward    one product of every tile gives the log-sums of its rows and of its columns       2N²d
    backward   the product again and from it g = d loss / d logits, a chunk at a time;           2N²d
               ∂u = exp(t)·g v,   ∂v = exp(t)·gᵀu,   ∂t = Σ g z                                  4N²d

g is rounded to bfloat16 for the last two products, after the probability of a match and its target have been
subtracted, so a pair that is nearly learned keeps its digits. float32 points are products of three
(`infonce_kernels.py`), and so are their gradients. Sums are float32 throughout, and always in the same order.
Where pairs have weights m (`targets/weighted.py`), a log-sum counts m times in the loss, and so does its match; g takes
them from the same few numbers per row and per column.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from equipoise.forms import CrossEntropy
from equipoise.forms.cross_entropy import SHARES
from equipoise.kernels.tiling import blocks
from equipoise.kernels.triton.launch_config import PLAN, Plan, Tile
from equipoise.kernels.triton.matmul import add_product
from equipoise.kernels.triton.recompute import recomputed
from equipoise.ops.split_bf16 import split_bf16

LOG2_E = 1 / math.log(2)
Sides = tuple[Tensor, Tensor]  # of rows and of columns


def fused_infonce(
    rows: Tensor,
    cols: Tensor,
    log_scale: Tensor,
    form: CrossEntropy,
    plan: Plan | None = None,
    weights: Tensor | None = None,
) -> Tensor:
    """The loss, float32, of points whose similarity is the inner product and whose row i matches column i; `weights`
    [N]: how often each pair counts, 1 on average."""
    plan = plan or (PLAN if rows.dtype == torch.bfloat16 else PLAN.split())
    work = partial(FusedInfoNCE, shares=SHARES[form.direction], plan=plan, weights=both_sides(weights))
    return recomputed(work, rows, cols, log_scale)


def both_sides(weights: Tensor | None) -> Sides | None:
    """Weights of pairs as those of rows and of columns."""
    return None if weights is None else (weights.float(), weights.float())


def smoke_test(device: torch.device) -> None:
    """Compile and run the smallest kernel; raises whatever Triton raises where it does not work."""
    from equipoise.kernels.triton import infonce_kernels

    total = torch.zeros(64, device=device)
    infonce_kernels.merge[(1,)](total, total, 1, 64, FRESH=False, DEEP=32, WIDE=64)


class FusedInfoNCE:
    """One contrast: its points, and how it is cut. Sums are log2-sums of powers of two until the loss is computed."""

    def __init__(
        self,
        rows: Tensor,
        cols: Tensor,
        log_scale: Tensor,
        shares: tuple[float, float],
        plan: Plan,
        weights: Sides | None = None,
    ):
        self.points, self.plan, self.shares, self.weights = (rows, cols), plan, shares, weights
        self.rows, self.cols = split_bf16(rows), split_bf16(cols)
        self.products = 1 if rows.dtype == torch.bfloat16 else 3
        self.n, self.m, self.d = len(rows), len(cols), rows.shape[1]
        self.matches = min(self.n, self.m)
        self.numbers: tuple[Tensor, ...] = (log_scale,)  # scalars that get a gradient
        self.scale = log_scale.detach().float().exp()

    def loss(self, *sums: Tensor) -> Tensor:
        hits = self.paired() * self.scale
        costs = [side[: self.matches] / LOG2_E - hits for side in sums]
        if self.weights is not None:
            costs = [weights * side for weights, side in zip(self.weights, costs, strict=True)]
        directions = zip(self.shares, costs, sums, strict=True)
        return torch.stack([share * side.sum() / len(whole) for share, side, whole in directions]).sum()

    def paired(self) -> Tensor:
        """The similarity of each pair that matches."""
        from equipoise.kernels.triton import infonce_kernels

        hits = self._numbers(self.matches)
        grid, cut = (-(-self.matches // 32),), {"D": self.d, "PRODUCTS": self.products, "BM": 32, "BK": 64}
        infonce_kernels.paired[grid](self.rows, self.cols, hits, self.matches, **cut)
        return hits

    def sums(self) -> tuple[Tensor, ...]:
        sums = self._numbers(self.n), self._numbers(self.m)
        tile = self.plan.statistics
        down, across = self.plan.sweep(self.m)
        buffer = self._buffer(down, across)
        for r, c in blocks(self.n, self.m, down, across):
            tiles = -(-len(r) // tile.rows), -(-len(c) // tile.cols)
            parts = self._numbers(tiles[1], len(r)), self._numbers(tiles[0], len(c))
            self._launch("statistics", tile, r, c, buffer, *parts)
            self._merge(parts[0], sums[0][r.start : r.stop], fresh=c.start == 0)
            self._merge(parts[1], sums[1][c.start : c.stop], fresh=r.start == 0)
        return sums

    def grads(self, sums: tuple[Tensor, ...], upstream: Tensor, needed: tuple[bool, ...]) -> tuple[Tensor | None, ...]:
        down, across = min(self.plan.chunk_rows, self.n), min(self.plan.chunk_cols, self.m)
        stored, buffer = self._stored(down, across), self._buffer(down, across)
        known, factor = self._known(sums), upstream * self.scale
        for_numbers = self._numbers(len(self.numbers)).zero_()
        for_rows = torch.empty_like(self.points[0]) if needed[0] else None
        col_sums = self._sums(self.m) if needed[1] else None
        row_sums = self._sums(down)
        for r, c in blocks(self.n, self.m, down, across):
            for_numbers += self._gradient(r, c, stored, buffer, known)
            g = self._chunk(stored, r, c)
            if for_rows is not None:
                band = row_sums.narrow(-2, 0, len(r))
                self._add(band, g, self.cols[c.start : c.stop], fresh=c.start == 0)
                if c.stop == self.m:
                    torch.mul(self._finished(band, 0, r), factor, out=for_rows[r.start : r.stop])
            if col_sums is not None:
                part = col_sums.narrow(-2, c.start, len(c))
                self._add(part, [x.mT for x in g], self.rows[r.start : r.stop], fresh=r.start == 0)
        del stored, buffer, row_sums, g
        for_cols = None
        if col_sums is not None:
            for_cols = self._finished(col_sums, 1, range(self.m)).mul_(factor).to(self.points[1].dtype)
        return for_rows, for_cols, *self._of_numbers(for_numbers * upstream, needed[2:])

    def _stored(self, down: int, across: int) -> Tensor:
        """An empty tensor for g of a chunk: rounded and, for pairs, what the rounding lost. Rows begin at multiples of
        16 bytes, as the library's fastest products need."""
        return self.rows.new_empty(1 if self.products == 1 else 2, down, -(-across // 8) * 8)

    def _chunk(self, stored: Tensor, r: range, c: range) -> Sequence[Tensor]:
        """g of a chunk, as its two halves, where `_gradient` has put it."""
        return list(stored[:, : len(r), : len(c)])

    def _sums(self, count: int) -> Tensor:
        """An empty tensor for Σ_j g_ij v_j of `count` points, which are the last axis but one."""
        return self._numbers(count, self.d)

    def _add(self, sums: Tensor, g: Sequence[Tensor], others: Tensor, fresh: bool) -> None:
        add_product(sums, g, others.split(self.d, 1), fresh=fresh)

    def _finished(self, sums: Tensor, side: int, numbers: range) -> Tensor:
        """Gradients, up to their factor, of the points with these numbers of one side, 0 rows and 1 columns."""
        return sums

    def _of_numbers(self, grads: Tensor, needed: tuple[bool, ...]) -> Iterator[Tensor | None]:
        for grad, number, need in zip(grads, self.numbers, needed, strict=True):
            yield grad.to(number) if need else None

    def _known(self, sums: tuple[Tensor, ...]) -> Any:
        """Numbers per row and per column that g is made of, beside the logits."""
        return self._above(sums, 0), self._above(sums, 1), self._match()

    def _gradient(self, r: range, c: range, stored: Tensor, buffer: Tensor | None, known: Any) -> Tensor:
        """g of a chunk into `stored`, and its part in the gradients of `numbers`."""
        tile = self.plan.gradient
        parts = self._numbers(-(-len(r) // tile.rows) * -(-len(c) // tile.cols))
        sides = known[0][r.start : r.stop], known[1][c.start : c.stop]
        place = stored.stride(1), r.start, c.start, known[2][r.start : r.stop]
        self._launch(
            "gradient", tile, r, c, buffer, *sides, stored[0], stored[-1], parts, *place, PRODUCTS=self.products
        )
        return parts.sum()[None]

    def _launch(
        self, name: str, tile: Tile, r: range, c: range, buffer: Tensor | None, *arguments: Any, **cut: Any
    ) -> None:
        """Launch a kernel over every tile of a chunk; it computes the products, or reads them from `buffer`."""
        down, across = -(-len(r) // tile.rows), -(-len(c) // tile.cols)
        cut |= {"EVEN": not len(r) % tile.rows and not len(c) % tile.cols, "BM": tile.rows, "BN": tile.cols}
        cut |= {"GROUP": tile.group, "num_warps": tile.warps}
        kernel, sources = self._kernel(name, tile, r, c, buffer, cut)
        kernel[(down * across,)](*sources, self.scale, *arguments, len(r), len(c), **cut)

    def _kernel(
        self, name: str, tile: Tile, r: range, c: range, buffer: Tensor | None, cut: dict[str, Any]
    ) -> tuple[Any, tuple[Tensor, ...]]:
        """The kernel, and what it computes similarities from; how it is cut is added to `cut`."""
        if buffer is None:
            cut |= {"D": self.d, "PRODUCTS": self.products, "BK": tile.deep, "num_stages": tile.stages}
            points = self.rows[r.start : r.stop], self.cols[c.start : c.stop]
            return getattr(self._kernels(), f"{name}_of_points"), points
        u, v = self._part(self.rows, r), self._part(self.cols, c)
        cut |= {"WIDTH": buffer.stride(0)}
        products = add_product(buffer[: len(r), : len(c)], u, [x.mT for x in v], fresh=True)
        return getattr(self._kernels(), f"{name}_of_products"), (products,)

    def _kernels(self) -> Any:
        """The module of this contrast's Triton kernels, imported where they are launched."""
        from equipoise.kernels.triton import infonce_kernels

        return infonce_kernels

    def _match(self) -> Tensor:
        """What the target takes from g where a row [n] meets its match."""
        match = self._numbers(self.n).fill_(self.shares[0] / self.n + self.shares[1] / self.m)
        return match if self.weights is None else match * self.weights[0]

    def _above(self, sums: tuple[Tensor, ...], side: int) -> Tensor:
        """Log2-sums less the log2 of each one's weight in the loss, infinite for those without a match."""
        above = self._lowered(sums[side], side, len(sums[side]))
        above[self.matches :] = math.inf
        return above

    def _lowered(self, sums: Tensor, side: int, length: int) -> Tensor:
        """Log2-sums less the log2 of weights, of rows or columns of which the whole matrix has `length`."""
        share = self.shares[side]
        above = sums - (math.log2(share / length) if share else -math.inf)
        return above if self.weights is None else above - self.weights[side].log2()

    def _merge(self, parts: Tensor, into: Tensor, fresh: bool) -> None:
        from equipoise.kernels.triton import infonce_kernels

        grid = (-(-len(into) // 64),)
        infonce_kernels.merge[grid](parts, into, *parts.shape, FRESH=fresh, DEEP=32, WIDE=64)

    def _part(self, points: Tensor, numbers: range) -> tuple[Tensor, ...]:
        """Points with these numbers for matrix products: themselves, or their two halves."""
        return points[numbers.start : numbers.stop].split(self.d, 1)

    def _buffer(self, down: int, across: int) -> Tensor | None:
        if self.plan.products == "tiles":
            return None
        return self._numbers(min(down, self.n), -(-min(across, self.m) // 8) * 8)

    def _numbers(self, *shape: int) -> Tensor:
        return self.rows.new_empty(shape, dtype=torch.float32)
