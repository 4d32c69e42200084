"""WebDataset shards in img2dataset's layout: `KEY.jpg` (.jpeg, .png, .webp), `KEY.txt`, `KEY.json`.

    [data]
    name = "shards"
    train = "laion/{00000..00099}.tar"

A `.txt` holds one caption per line. With `caption_key` captions come from the `.json` instead. Other things in the
`.json` go along with the pair: `label`, `tags` with their `boxes`, the rest as `truth`. `regions = "inside"` reads
`KEY.regions.npy` (or `.npz`) beside the picture as well.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

from equipoise.data.bad_records import BadRecord, Fault
from equipoise.data.files.captions import BadText, captions_under, read_captions, read_side
from equipoise.data.files.file_source import FileSettings
from equipoise.data.files.paths import find_files
from equipoise.data.files.records import pair_with
from equipoise.data.files.shard_index import SIDE_FILES, TEXT_FILES, Check, Shard, open_shard
from equipoise.data.source import Pair
from equipoise.settings.trust import output_folder


@dataclass(frozen=True)
class Shards(FileSettings):
    caption_key: str = ""  # of the .json; captions are in the .txt where it is not given
    cache: str = output_folder()  # a folder for copies of what URLs name, and for indices of the shards

    def records(self, patterns: tuple[str, ...]) -> ShardRecords:
        shards = open_shards(find_files(patterns, self.root, self.cache), self._check, self.cache, self.caption_key)
        return ShardRecords(shards, self.caption_key)

    def _check(self, files: dict[str, bytes]) -> None:
        pair_of("", files, self.caption_key)


class ShardRecords:
    def __init__(self, shards: Sequence[Shard], caption_key: str = ""):
        self.shards, self.caption_key = shards, caption_key
        self._ends = list(accumulate(map(len, shards)))

    @property
    def faults(self) -> list[Fault]:
        """Those that were left out, read from the indices: they may be many, and are seldom asked for."""
        return [fault for shard in self.shards for fault in shard.faults]

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def find(self, index: int) -> tuple[Shard, int]:
        """The shard that holds a record, and its number there."""
        if not 0 <= index < len(self):
            raise IndexError(f"there are {len(self)} records, so there is no number {index}")
        number = bisect_right(self._ends, index)
        return self.shards[number], index - (self._ends[number - 1] if number else 0)

    def key(self, index: int) -> str:
        shard, number = self.find(index)
        return shard.key(number)

    def place(self, index: int) -> str:
        shard, number = self.find(index)
        return shard.place(number)

    def pair(self, index: int) -> Pair:
        return self._pair(index, self.text_files(index))

    def _pair(self, index: int, files: Mapping[str, bytes]) -> Pair:
        """Texts were sound when the shard was indexed; on a disk that decays they need not be any more."""
        try:
            return self.pair_from(self.key(index), files)
        except BadText as error:
            raise BadRecord(self.place(index), str(error)) from None

    def pair_from(self, key: str, files: Mapping[str, bytes]) -> Pair:
        """The pair that the text files of a record make. Raises BadText."""
        return pair_of(key, files, self.caption_key)

    def image(self, index: int) -> bytes:
        shard, number = self.find(index)
        return shard.read(number, "image")["image"]

    def read(self, index: int) -> tuple[Pair, bytes]:
        shard, number = self.find(index)
        files = shard.read(number, "image", *TEXT_FILES)
        return self._pair(index, files), files["image"]

    def text_files(self, index: int) -> Mapping[str, bytes]:
        shard, number = self.find(index)
        return shard.read(number, *TEXT_FILES)

    def side_files(self, index: int) -> Mapping[str, bytes]:
        shard, number = self.find(index)
        return shard.read(number, *SIDE_FILES)


def open_shards(paths: Sequence[Path], check: Check, cache: str, reading: str) -> list[Shard]:
    """The shards, indexed; `reading` tells apart indices that were made with other checks."""
    folder = None
    if cache:
        folder = Path(cache) / "indices" / hashlib.blake2b(reading.encode(), digest_size=8).hexdigest()
    return [open_shard(path, check, folder) for path in paths]


def pair_of(key: str, files: Mapping[str, bytes], caption_key: str = "") -> Pair:
    """A pair from the side files of a record. Raises BadText."""
    side = read_side(files["json"]) if "json" in files else {}
    if caption_key:
        if "json" not in files:
            raise BadText("there is no .json beside the image")
        return pair_with(key, captions_under(side, caption_key), side)
    if "txt" not in files:
        raise BadText("there is no .txt beside the image")
    return pair_with(key, read_captions(files["txt"]), side)
