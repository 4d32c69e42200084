"""The pieces of captions that were cut before: those of a small data set come by again in every epoch.

What is full forgets nothing and takes no more: of a data set that is larger than the memory a part is still known, and
the rest costs a look into a table. The captions cut last are known besides: a batch asks twice, first whether its
captions have words and then for their tokens, and a large data set would be cut twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

KEPT = 1 << 17  # captions, some 250 bytes each


class PieceMemory:
    """Token ids by caption; `cut` makes those of captions that are new."""

    def __init__(self, cut: Callable[[list[str]], list[list[int]]], kept: int = KEPT):
        self._cut, self._room, self._known = cut, kept, dict[str, tuple[int, ...]]()
        self._last = dict[str, tuple[int, ...]]()  # replaced, never changed: threads may share a tokenizer

    def unknown(self, captions: Sequence[object]) -> list[int]:
        """Places of captions that were not cut before, whatever they are."""
        known = self._known
        return [place for place, one in enumerate(captions) if not (isinstance(one, str) and one in known)]

    def __call__(self, captions: Sequence[str]) -> list[tuple[int, ...]]:
        last = self._last
        try:
            return [self._known[caption] for caption in captions]
        except KeyError:
            pass
        new = [caption for caption in dict.fromkeys(captions) if caption not in self._known and caption not in last]
        made = dict(zip(new, map(tuple, self._cut(new) if new else []), strict=True))
        room = max(self._room - len(self._known), 0)
        self._known.update(list(made.items())[:room])
        cut = {**last, **made}
        if room < len(made) and len(captions) <= KEPT:
            self._last = {caption: cut[caption] for caption in captions if caption in cut}
        return [cut[caption] if caption in cut else self._known[caption] for caption in captions]
