"""SoftCLIP's losses on inner products at the speed of matrix products: linear memory, exact gradients, no atomics.

Guides compare samples with themselves, so their scores are symmetric, and each two samples i < j are visited once
with four products: ⟨u_i, v_j⟩, ⟨v_i, u_j⟩, ⟨r_i, r_j⟩, ⟨a_i, a_j⟩ (`softclip_kernels.py`).

    forward    the products of every chunk give four numbers of every image and of every text        4N²d
    between    the losses, and the six numbers gradients are made of: N of each (`softclip_terms.py`)
    backward   the products again, from them ∂z_ij, ∂z_ji, ∂s_ij and ∂c_ij, a chunk at a time         4N²d
               ∂u, ∂v, ∂r, ∂a: two products each, half the size for ∂r and ∂a                        8N²d

A guide that wants no gradient saves 2N²d. Products are the library's, of a chunk at a time into float32; forward they
may be those of the kernel's own tiles instead, smaller ones than InfoNCE has, for there are four at once. Gradients of
pairs are rounded to bfloat16 (or to two, for float32 points) before they are multiplied, those of samples with
themselves among them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from equipoise.forms import Form, StackedForms
from equipoise.kernels.tiling import blocks_of_pairs
from equipoise.kernels.triton.launch_config import Plan, Tile
from equipoise.kernels.triton.matmul import add_batched, add_product
from equipoise.kernels.triton.recompute import recomputed
from equipoise.kernels.triton.softclip_weights import weights_of
from equipoise.ops.split_bf16 import split_bf16
from equipoise.targets.softened import SoftenedBy

PLAN = Plan("library", Tile(32, 64, warps=4), Tile(32, 32, warps=4), chunk_rows=4096, chunk_cols=4096, sweep_cols=4096)
TILES = replace(PLAN, products="tiles", statistics=Tile(128, 64, warps=8))
PARTNERS = (1, 0, 2, 3)  # images, texts, regions, tags: the kind that each is multiplied with
NOTHING = -1e30  # as in `softclip_kernels.py`


def fused_softclip(
    rows: Tensor,
    cols: Tensor,
    log_scale: Tensor,
    form: Form,
    target: SoftenedBy,
    plan: Plan | None = None,
    weights: Tensor | None = None,
) -> Tensor:
    """The losses, float32, of points and guides compared by inner products; [F] of F stacked forms. `weights` [N]: how
    often each sample counts, as an image and as a text, 1 on average."""
    plan = plan or plan_for(rows.dtype)
    (_, by_row), (_, by_col) = target.rows[0], target.cols[0]
    tensors = rows, cols, by_row.left, by_col.left, log_scale, by_row.log_scale, by_col.log_scale
    known = target.known(range(len(rows)), range(len(cols)))
    guided = None if known is None else torch.stack(known).to(torch.int8)
    counts = None if weights is None else weights.double()
    work = partial(FusedSoftCLIP, form=form, beta=target.beta, known=guided, plan=plan, counts=counts)
    return recomputed(work, *tensors)


def plan_for(dtype: torch.dtype) -> Plan:
    """The fastest plan measured (docs/performance.md). Three products for each of float32 points keep tiles busy."""
    return PLAN if dtype == torch.bfloat16 else TILES.split()


class FusedSoftCLIP:
    """One contrast: its points and guides, and how it is cut."""

    def __init__(
        self, *tensors: Tensor, form: Form, beta: float, known: Tensor | None, plan: Plan, counts: Tensor | None = None
    ):
        self.counts = counts
        self.given, self.form, self.beta, self.known, self.plan = tensors, form, beta, known, plan
        self.products = 1 if tensors[0].dtype == torch.bfloat16 else 3
        self.count, self.wide = len(tensors[0]), max(x.shape[1] for x in tensors[:4])
        self.points = torch.stack([split_bf16(F.pad(x, (0, self.wide - x.shape[1]))) for x in tensors[:4]])
        self.partners = self.points[list(PARTNERS)]
        self.scales = torch.stack([x.detach().float() for x in tensors[4:]]).exp()

    def sums(self) -> tuple[Tensor, ...]:
        tile, total = self.plan.statistics, self._numbers(2, 8, self.count)
        total[:, 0::2], total[:, 1::2] = NOTHING, 0
        down, across = self.plan.chunk_rows, self._across()
        buffer = None if self.plan.products == "tiles" else self._buffer(tile, down, across)
        for r, c in blocks_of_pairs(self.count, down, across):
            tiles = -(-len(r) // tile.rows), -(-len(c) // tile.cols)
            parts = self._numbers(12 * (tiles[1] * len(r) + tiles[0] * len(c)))
            self._launch("sums", tile, r, c, buffer, parts)
            self._merge(parts, total, r, c, tile)
        return total, self.hits()

    def hits(self) -> Tensor:
        """⟨u_i, v_i⟩, ⟨r_i, r_i⟩, ⟨a_i, a_i⟩ by the same products as everywhere, times the scales [3, N]."""
        from equipoise.kernels.triton import infonce_kernels

        hits, grid = self._numbers(3, self.count), (-(-self.count // 32),)
        for into, number in zip(hits, (0, 2, 3), strict=True):
            sides = self.points[number], self.partners[number]
            cut = {"D": self.wide, "PRODUCTS": self.products, "BM": 32, "BK": 64}
            infonce_kernels.paired[grid](*sides, into, self.count, **cut)
        return hits.mul_(self.scales[:, None])

    def loss(self, *sums: Tensor) -> Tensor:
        programs = -(-self.count // 128)
        parts = self.scales.new_empty(2, 5, programs, dtype=torch.float64)
        self._end("write_terms", (programs, 2), sums, parts)
        losses = torch.tensordot(weights_of(self.form, parts.device), parts.sum(2), 2) / self.count
        return losses.float() if isinstance(self.form, StackedForms) else losses[0].float()

    def grads(self, sums: tuple[Tensor, ...], upstream: Tensor, needed: tuple[bool, ...]) -> tuple[Tensor | None, ...]:
        sides, matches = self._sides(sums, upstream)
        of_guides = needed[2] or needed[5], needed[3] or needed[6]
        down, across = min(self.plan.chunk_rows, self.count), min(self.plan.chunk_cols, self.count)
        wide = -(-across // 8) * 8  # the library's fastest products want rows that begin at multiples of 16 bytes
        stored = self.points.new_empty(1 if self.products == 1 else 2, 4, down, wide)
        buffer = self._buffer(self.plan.gradient, down, across)
        totals = self._numbers(4 if any(needed[2:4]) else 2, self.count, self.wide).zero_()
        for_scales = (matches * sums[1]).sum(1)
        for r, c in blocks_of_pairs(self.count, down, across):
            for_scales += self._gradient(r, c, stored, buffer, (sides, matches), of_guides)
            self._add_products(stored, r, c, totals)
        del stored, buffer
        return *self._finished(totals, needed), *(
            grad.to(x) if need else None for grad, x, need in zip(for_scales, self.given[4:], needed[4:], strict=True)
        )

    def _sides(self, sums: tuple[Tensor, ...], upstream: Tensor) -> tuple[Tensor, Tensor]:
        """The six numbers per side that gradients are made of [2, 6, N], and d loss / d hits [3, N]."""
        by_loss = weights_of(self.form, upstream.device)
        weights = torch.tensordot(upstream.double().reshape(-1) / self.count, by_loss, 1)
        sides, matches = self._numbers(2, 6, self.count), self._numbers(3, self.count)
        self._end("write_sides", (-(-self.count // 128),), sums, weights, sides, matches)
        return sides, matches

    def _end(self, name: str, grid: tuple[int, ...], sums: tuple[Tensor, ...], *arguments: Tensor) -> None:
        from equipoise.kernels.triton import softclip_terms

        known, counts = (sums[0] if given is None else given for given in (self.known, self.counts))
        logs = math.log(self.beta), math.log1p(-self.beta) if self.beta < 1 else NOTHING
        cut = {"ALONE": self.count == 1, "KNOWN": self.known is not None, "WEIGHTED": self.counts is not None}
        getattr(softclip_terms, name)[grid](*sums, known, counts, *arguments, *logs, self.count, **cut, WIDE=128)

    def _gradient(
        self,
        r: range,
        c: range,
        stored: Tensor,
        buffer: Tensor | None,
        known: tuple[Tensor, Tensor],
        of_guides: Sequence[bool],
    ) -> Tensor:
        """A chunk's gradients into `stored`, and its part in those of the three logarithms of scales."""
        tile = self.plan.gradient
        parts = self._numbers(3, -(-len(r) // tile.rows) * -(-len(c) // tile.cols))
        even = not len(r) % tile.rows and not len(c) % tile.cols
        place = self.count, stored.stride(2)
        self._launch(
            "gradient", tile, r, c, buffer, *known, stored[0], stored[-1], parts, *place,
            STORED=stored.stride(1), ROW_GUIDE=of_guides[0], COL_GUIDE=of_guides[1], EVEN=even, PRODUCTS=self.products,
        )  # fmt: skip
        return parts.sum(1)

    def _add_products(self, stored: Tensor, r: range, c: range, totals: Tensor) -> None:
        """∂u_i += Σ_j ∂z_ij v_j and so on, of all kinds of points together as far as may be: fewer launches."""
        g = list(stored[:, : len(totals), : len(r), : len(c)])
        add_batched(totals[:, r.start : r.stop], g, self._halves(self.partners[: len(totals)], c))
        of_rows = self._halves(self.points, r)
        for number in (0, 1):
            into = totals[PARTNERS[number], c.start : c.stop]
            add_product(into, [x[number].mT for x in g], [x[number] for x in of_rows])
        if len(totals) == 4:
            add_batched(totals[2:, c.start : c.stop], [x[2:].mT for x in g], [x[2:] for x in of_rows])

    def _finished(self, totals: Tensor, needed: tuple[bool, ...]) -> Iterator[Tensor | None]:
        """Gradients of points from their sums."""
        for number, (x, scale) in enumerate(zip(self.given[:4], (0, 0, 1, 2), strict=True)):
            yield totals[number, :, : x.shape[1]].mul_(self.scales[scale]).to(x.dtype) if needed[number] else None

    def _launch(
        self, name: str, tile: Tile, r: range, c: range, buffer: Tensor | None, *arguments: Any, **cut: Any
    ) -> None:
        """Launch a kernel over every tile of a chunk; it computes the products, or reads them from `buffer`."""
        from equipoise.kernels.triton import softclip_kernels

        cut |= {"BM": tile.rows, "BN": tile.cols, "GROUP": tile.group, "num_warps": tile.warps}
        if buffer is None:
            sources = [self.points[:, r.start : r.stop], self.partners[:, c.start : c.stop]]
            cut |= {"PLANE": self.points.stride(0), "D": self.wide, "PRODUCTS": self.products}
            cut |= {"BK": tile.deep, "num_stages": tile.stages}
            kernel = getattr(softclip_kernels, f"{name}_of_points")
        else:
            sides = self._halves(self.points, r), [x.mT for x in self._halves(self.partners, c)]
            add_batched(buffer[:, : len(r), : len(c)], *sides, fresh=True)
            sources, kernel = [buffer], getattr(softclip_kernels, f"{name}_of_products")
            cut |= {"PLANE": buffer.stride(0), "WIDTH": buffer.stride(1)}
        grid = (-(-len(r) // tile.rows) * -(-len(c) // tile.cols),)
        kernel[grid](*sources, self.scales, *arguments, r.start, c.start, len(r), len(c), **cut)

    def _merge(self, parts: Tensor, total: Tensor, r: range, c: range, tile: Tile) -> None:
        from equipoise.kernels.triton import softclip_kernels

        grid = (-(-max(len(r), len(c)) // 64), 4, 2)
        place = r.start, c.start, len(r), len(c), self.count
        softclip_kernels.merge_sums[grid](parts, total, *place, BM=tile.rows, BN=tile.cols, DEEP=32, WIDE=64)

    def _halves(self, points: Tensor, numbers: range) -> tuple[Tensor, ...]:
        """Samples with these numbers, of all kinds of points: themselves, or their two halves."""
        return points[:, numbers.start : numbers.stop].split(self.wide, 2)

    def _across(self) -> int:
        return min(self.plan.sweep_cols, self.count)

    def _buffer(self, tile: Tile, down: int, across: int) -> Tensor:
        """An empty tensor for the library's products of a chunk: whole tiles, so that a tile is read without a mask."""
        sizes = ((down, tile.rows), (across, tile.cols))
        return self._numbers(4, *(-(-min(size, self.count) // side) * side for size, side in sizes))

    def _numbers(self, *shape: int) -> Tensor:
        return self.points.new_empty(shape, dtype=torch.float32)
