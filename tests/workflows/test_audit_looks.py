"""Records that look the same, tile by tile, against a loop over all pairs."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from equipoise.data.bad_records import BadRecord
from equipoise.workflows.audit import looks
from equipoise.workflows.audit.copies import copied_records
from equipoise.workflows.audit.looks import ALIKE, Looks, alike_among


class Album:
    """Features, which may be tokens, all under one caption among many others; counts what is read."""

    def __init__(self, features: Tensor, lengths: list[int] | None = None, broken: tuple[int, ...] = ()):
        self.features, self.lengths, self.broken = features, lengths, broken
        self.reads: list[int] = []

    def __len__(self) -> int:
        return len(self.features)

    def image_features(self, numbers):
        if set(numbers) & set(self.broken):
            raise BadRecord("a.tar", "broken")
        self.reads.append(len(numbers))
        found = self.features[list(numbers)]
        if self.lengths is None:
            return found, None
        lengths = torch.tensor([self.lengths[number] for number in numbers])
        mask = torch.arange(int(lengths.max())) < lengths[:, None]
        return found[:, : mask.shape[1]], mask


def read_aloud(rows: list[Tensor | None]) -> list[list[int]]:
    """Each record beside the first one that it is like, where that is like none before."""
    groups: dict[int, list[int]] = {}
    for number, row in enumerate(rows):
        if row is not None:
            first = next((one for one in groups if alike(rows[one], row)), number)
            groups.setdefault(first, []).append(number)
    return [group for group in groups.values() if len(group) > 1]


def alike(one: Tensor, other: Tensor) -> bool:
    longer = max(len(one), len(other))
    centred = [torch.zeros(longer, dtype=torch.float64) for _ in range(2)]
    for place, row in zip(centred, (one, other), strict=True):
        place[: len(row)] = row.double() - row.double().mean()
    if torch.equal(*centred):
        return True
    return float(torch.nn.functional.cosine_similarity(*centred, dim=0)) >= ALIKE


def crowded(count: int, width: int = 4) -> Tensor:
    """Points of which many are alike, in chains too, some the same and some flat."""
    drawn = torch.randn(count, width, generator=torch.Generator().manual_seed(count))
    drawn[count // 2] = drawn[1]
    drawn[count // 3] = drawn[-1] = 3.0
    return drawn


@pytest.mark.parametrize(("at_once", "held"), [(256, 1 << 20), (7, 1 << 20), (7, 0), (1, 0), (5, 400)])
@pytest.mark.parametrize("count", [2, 23, 120])
def test_groups_are_those_of_a_loop_over_all_pairs(monkeypatch, at_once, held, count):
    monkeypatch.setattr(looks, "AT_ONCE", at_once)
    monkeypatch.setattr(looks, "HELD", held)
    album = Album(crowded(count), broken=(4, 9))
    rows = [None if number in album.broken else row for number, row in enumerate(album.features)]
    expected = read_aloud(rows)
    assert len(expected) > 3 or count < 100
    assert alike_among(range(count), Looks(album)) == expected
    assert max(album.reads) <= at_once


def test_tokens_of_several_lengths_are_compared(monkeypatch):
    monkeypatch.setattr(looks, "AT_ONCE", 3)
    monkeypatch.setattr(looks, "HELD", 0)
    tokens = torch.randn(12, 5, 6, generator=torch.Generator().manual_seed(0))
    lengths = [2, 5, 3, 1, 4, 2, 5, 3, 1, 4, 2, 1]
    for one, other in ((0, 10), (1, 6), (3, 11)):
        tokens[other, : lengths[one]] = 1.01 * tokens[one, : lengths[one]]
    rows = [row[:length].flatten() for row, length in zip(tokens, lengths, strict=True)]
    assert alike_among(range(12), Looks(Album(tokens, lengths))) == read_aloud(rows) == [[0, 10], [1, 6], [3, 11]]


def test_what_fits_is_read_once_and_what_does_not_tile_by_tile(monkeypatch):
    monkeypatch.setattr(looks, "AT_ONCE", 10)
    for held, reads in ((1 << 20, 10), (0, 10 + sum(range(10)))):
        monkeypatch.setattr(looks, "HELD", held)
        album = Album(torch.randn(100, 500))
        assert alike_among(range(100), Looks(album)) == []
        assert len(album.reads) == reads


def test_a_caption_of_many_records_is_read_in_tiles(monkeypatch):
    """And its records are found, as those of a few are."""
    from equipoise.workflows.audit import copies

    album = Album(crowded(600))
    monkeypatch.setattr(copies, "_same_captions", lambda source: [[0, 300], list(range(1, 599))])
    found = list(copied_records(album))
    assert max(album.reads) <= looks.AT_ONCE
    assert found == read_aloud([None, *album.features[1:599]])
