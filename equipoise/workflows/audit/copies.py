"""Records that a data set holds more than once, held out together: who learned from the copy of a pair has seen it.

pictures   exact and near copies, whatever their captions (`data/copies`); every picture is read once for it
features   the same or nearly so, whatever their captions (`data/copies/features.py`)
both       the same captions, word for word, and nearly the same picture or features of it: thumbnails, or features,
           that correlate (`looks.py`). A caption of very many records ("photo") is not worth the look.

Copies of copies are copies. More than a hundredth of all records that hang together by near copies are a kind of
picture (shirts on white) and no copies, and stay where they are; exact copies among them are still held out together.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress

from equipoise.data.copies.watch import WatchedSource
from equipoise.data.keep.records import records
from equipoise.data.source import Source
from equipoise.types import UserError
from equipoise.workflows.audit.looks import AT_ONCE, Looks, alike_among

MOST = 0.01  # of all records: so many with the same captions are not compared, and so many near copies are none


def held_together(parts: Sequence[Sequence[int]], source: Source) -> list[tuple[int, ...]]:
    """The same folds with every copy moved into the fold of the first of its kind."""
    fold = {number: place for place, part in enumerate(parts) for number in part}
    copies = source.copies() if isinstance(source, WatchedSource) else []
    most = max(2, int(MOST * len(source)))
    # A judge that learned an exact copy has seen word for word what it judges, however many there are. But with more of
    # them than a fold has records, that fold would be most of the data and leave its judge little to learn from.
    same = joined([[copy.first, copy.second] for copy in copies if copy.exact], min(map(len, parts)))
    alike = joined([*([copy.first, copy.second] for copy in copies), *copied_records(source)], most)
    for first, *others in [*(group for group in same if len(group) <= most), *alike]:
        fold |= dict.fromkeys(others, fold[first])
    _share_out([group for group in same if len(group) > most], fold)
    moved: list[list[int]] = [[] for _ in parts]
    for number in sorted(fold):
        moved[fold[number]].append(number)
    return [tuple(part) for part in moved] if all(moved) else [tuple(part) for part in parts]


def _share_out(crowds: Sequence[Sequence[int]], fold: dict[int, int]) -> None:
    """Put each crowd, the largest first, into the fold that holds fewest others: chance could give several to one."""
    held = Counter(fold.values())
    for crowd in sorted(crowds, key=len, reverse=True):
        held.subtract(fold[number] for number in crowd)
        place = min(held, key=lambda one: (held[one], one))
        fold |= dict.fromkeys(crowd, place)
        held[place] += len(crowd)


def joined(groups: Iterable[Sequence[int]], most: int) -> list[list[int]]:
    """The groups with those that share a number made one, each in order; without those of more than `most`."""
    first: dict[int, int] = {}

    def root(number: int) -> int:
        while first.setdefault(number, number) != number:
            first[number] = first[first[number]]
            number = first[number]
        return number

    for group in groups:
        low, *rest = sorted(map(root, group))
        first.update(dict.fromkeys(rest, low))
    found: dict[int, list[int]] = defaultdict(list)
    for number in sorted(first):
        found[root(number)].append(number)
    return [group for group in found.values() if len(group) <= most]


def read_pictures(source: WatchedSource, size: int) -> None:
    """Let the source see all its pictures, so that its copies are known; those that cannot be read have none."""
    for start in range(0, len(source), AT_ONCE):
        numbers = range(start, min(start + AT_ONCE, len(source)))
        try:
            source.images(numbers, size)
        except UserError:  # a broken record is met, and counted, in training
            for number in numbers:
                with suppress(UserError):
                    source.images([number], size)


def copied_records(source: Source) -> Iterator[list[int]]:
    """The numbers of records that are copies of one another, two or more together."""
    for several in _chunks(_same_captions(source)):
        looks = Looks(source)
        looks.of(
            [number for numbers in several for number in numbers][:AT_ONCE]
        )  # those of small groups, read together
        for numbers in several:
            yield from alike_among(numbers, looks)


def _chunks(groups: Sequence[list[int]]) -> Iterator[list[list[int]]]:
    """Groups of `AT_ONCE` records or a little more in all."""
    chunk: list[list[int]] = []
    for group in groups:
        chunk.append(group)
        if sum(map(len, chunk)) >= AT_ONCE:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


def _same_captions(source: Source) -> list[list[int]]:
    same: dict[bytes, list[int]] = defaultdict(list)
    for number, (_, texts) in enumerate(records(source)):
        if len(texts):
            same[texts.tobytes()].append(number)
    return [numbers for numbers in same.values() if 1 < len(numbers) <= max(2, MOST * len(source))]
