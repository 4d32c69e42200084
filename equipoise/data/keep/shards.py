"""What is kept of pictures in files, as WebDataset shards that train as it does: `00000.tar`, `00001.tar`, ...

Images are copied byte for byte. `KEY.txt` holds the captions that are kept (or stand in their place), one per line;
`KEY.json` what else is known of the pair; regions and class numbers lie beside them as they did. A key stays as it is
where a shard can hold it; `photos/a.b.jpg` of a table becomes `photos/a_b`, and the `.json` says what it was. A
record that cannot be decoded is left out and named in `left_out.json`. A shard appears under its name only when it is
whole: writing that was stopped goes on where it left off, and `shards.json` refuses what was decided otherwise since.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from equipoise.data.bad_records import BadRecord, Fault
from equipoise.data.caption_exchange import ExchangedCaptions
from equipoise.data.files.image_source import Pictures
from equipoise.data.files.mixture import Mixture
from equipoise.data.files.prepare import LEFT_OUT, add_faults, entry_name, without_ending
from equipoise.data.files.records import side_files_of
from equipoise.data.keep.source import KeptSource
from equipoise.data.remap import RemappedSource
from equipoise.data.shard_writer import claim, write_shard
from equipoise.data.source import CroppingSource, Pair

PER_SHARD = 1000
TEXTS = ("txt", "json")  # written anew


def write_kept(
    source: CroppingSource,
    folder: Path,
    note: Mapping[str, Any],
    caption_keys: frozenset[str] = frozenset(),
    per_shard: int = PER_SHARD,
    progress: Callable[[int], None] | None = None,
) -> list[Path]:
    """Writes the shards that are not there yet; returns the paths of all. `note` says what they are made of, and
    `caption_keys` under which names of a `.json` captions lie."""
    claim(folder, json.dumps({"records": len(source), "per_shard": per_shard, **note}, indent=2) + "\n")
    paths = []
    for number, start in enumerate(range(0, len(source), per_shard)):
        path = folder / f"{number:05d}.tar"
        indices = range(start, min(start + per_shard, len(source)))
        if not path.exists():
            write_shard(path, _samples(source, indices, caption_keys, folder / LEFT_OUT))
        paths.append(path)
        if progress:
            progress(indices.stop)
    return paths


def _samples(
    source: CroppingSource, indices: range, caption_keys: frozenset[str], left_out: Path
) -> Iterator[dict[str, str | bytes]]:
    faults: list[Fault] = []
    seen: set[str] = set()
    for index in indices:
        try:
            record = source.open(index)
            record.image.check()
        except BadRecord as error:
            faults.append(error.fault)
            continue
        key = _shard_key(record.pair.key)
        key = f"{key}-{index}" if key in seen else key
        seen.add(key)
        beside = {name: data for name, data in _beside(source, index).items() if name not in TEXTS}
        data = record.image.data
        yield {"__key__": key, _ending(data): data, **_texts(record.pair, key, caption_keys), **beside}
    add_faults(left_out, faults)  # before the shard gets its name: once it has, nobody looks here again


def _texts(pair: Pair, key: str, caption_keys: frozenset[str]) -> dict[str, bytes]:
    """The .txt and, where there is anything to say, the .json; where captions lie in it too, those that are kept."""
    files = side_files_of(pair)
    side = json.loads(files["json"]) if "json" in files else {}
    for name in caption_keys & set(pair.truth):
        side["truth"].pop(name)
        side[name] = list(pair.captions)
    if key != pair.key:
        side["key"] = pair.key
    return files | ({"json": json.dumps(side, ensure_ascii=False).encode()} if side else {})


def _shard_key(key: str) -> str:
    """The name of a record's files: its key, but for the ending of a picture, or as a shard can hold it."""
    name = without_ending(key)
    folders, _, file = name.rpartition("/")
    leads_out = name.startswith(("/", "./")) or ".." in folders.split("/") or "\\" in name
    if file and "." not in file and name.isprintable() and not leads_out:
        return name
    return "/".join(map(entry_name, filter(None, name.split("/")))) or "_"


def _ending(data: bytes) -> str:
    """By what the bytes are, not by the name they had; a kind that shards have no name for is read by its bytes too."""
    if data.startswith(b"\x89PNG"):
        return "png"
    return "webp" if data.startswith(b"RIFF") else "jpg"


def _beside(source: Any, index: int) -> Mapping[str, bytes]:
    """The files beside a picture, by ending, however the source was wrapped."""
    if isinstance(source, KeptSource):
        return _beside(source.whole, int(source.records[index]))
    if isinstance(source, RemappedSource):
        return _beside(source.source, int(source.image_numbers[index]))
    if isinstance(source, ExchangedCaptions):
        return _beside(source.source, index)
    if isinstance(source, Mixture):
        return _beside(*source.origin(index))
    return source.records.side_files(index) if isinstance(source, Pictures) else {}
