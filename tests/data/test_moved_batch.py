"""Lengths of texts, read before a batch leaves the processor: right, kept by parts, and left out where in doubt."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from equipoise.data.moved_batch import moved_batch
from equipoise.data.source import REGION_MASK, TEXT_VIEW2_MASK
from equipoise.training.grad_cache import micro_batches
from equipoise.types import Batch, Lengths

MASK = torch.arange(6) < torch.tensor([3, 6, 1, 4])[:, None]


def batch_of(mask: torch.Tensor, **side: torch.Tensor) -> Batch:
    return Batch(torch.zeros(len(mask), 1), mask.long(), mask, torch.arange(len(mask)), side)


def test_lengths_are_those_of_the_masks():
    few = torch.arange(2) < torch.tensor([0, 1, 2, 2])[:, None]
    moved = moved_batch(batch_of(MASK, **{REGION_MASK: few, TEXT_VIEW2_MASK: MASK.flip(0)}), "cpu")
    assert set(moved.lengths) == {"mask", REGION_MASK, TEXT_VIEW2_MASK}
    known = moved.lengths["mask"]
    assert known.each.tolist() == [3, 6, 1, 4]
    assert (known.total, known.longest, known.shortest) == (14, 6, 1)
    regions = moved.lengths[REGION_MASK]
    assert (regions.total, regions.longest, regions.shortest) == (5, 2, 0)
    assert moved.lengths[TEXT_VIEW2_MASK].each.tolist() == [4, 1, 6, 3]


@pytest.mark.parametrize("micro", [1, 2, 3, 4])
def test_parts_have_lengths_of_their_own(micro):
    for part in micro_batches(moved_batch(batch_of(MASK), "cpu"), micro):
        again = Lengths.of(part.mask)
        assert again is not None
        assert part.lengths["mask"].each.tolist() == again.each.tolist() == part.mask.sum(1).tolist()
        assert part.lengths["mask"].total == int(part.mask.sum())


def test_a_mask_with_holes_has_none():
    mask = MASK.clone()
    mask[1, 2] = False
    assert Lengths.of(mask) is None
    assert moved_batch(batch_of(mask), "cpu").lengths == {}


def test_a_mask_that_has_left_is_not_asked():
    assert Lengths.of(MASK.to("meta")) is None


def test_whoever_changes_a_batch_by_a_function_loses_them():
    moved = moved_batch(batch_of(MASK), "cpu")
    assert moved.map(lambda tensor: tensor.flip(0)).lengths == {}
    assert replace(moved, images=moved.images + 1).lengths == moved.lengths


def test_an_empty_batch_has_lengths():
    none = Lengths.of(MASK[:0])
    assert none is not None
    assert (none.total, none.longest, none.shortest) == (0, 0, 0)
    no_width = Lengths.of(MASK[:, :0])
    assert no_width is not None
    assert no_width.each.tolist() == [0] * 4


def test_batches_carry_them(batches):
    batch = batches.batch(0)
    assert batch.lengths["mask"].each.tolist() == batch.mask.sum(1).tolist()
    streamed = next(batches.starting_at(3))
    assert streamed.lengths["mask"].total == int(streamed.mask.sum())
