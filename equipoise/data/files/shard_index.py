"""One WebDataset shard: which records it holds and where, read once; then any record, directly.

Entries whose names differ only after the first dot make one record. An index may be kept in a folder, as JSON; it is
believed as long as the shard has the same size and time of change.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from equipoise.data.bad_records import Fault, printable
from equipoise.data.files.captions import LONGEST, BadText, has_surrogates
from equipoise.data.files.records import IMAGES, LARGEST
from equipoise.data.files.tar_index import Entry, entries
from equipoise.io.atomic import write_text
from equipoise.types import UserError

TEXT_FILES = ("txt", "json", "cls")
SIDE_FILES = (*TEXT_FILES, "regions.npy", "regions.npz")
KINDS = ("image", *SIDE_FILES)
MISSING = (-1, -1)
VERSION = 3  # of the index files

Span = tuple[int, int]  # offset, size
Files = dict[str, Span]  # by file ending, or "image" whatever its kind
Check = Callable[[dict[str, bytes]], None]  # of the files of text; raises BadText


@dataclass(frozen=True)
class Shard:
    path: Path
    size: int  # bytes, when it was indexed
    changed: int  # nanoseconds, likewise
    keys: list[str]
    spans: np.ndarray  # int64 [records, KINDS, 2]
    faults: list[Fault]

    def read(self, index: int, *names: str) -> dict[str, bytes]:
        """Files of a record. Opened for each reading: no handle has to survive a fork, a thread or a long run."""
        with _opened(self.path) as handle:
            if handle.stamp != (self.size, self.changed):
                raise UserError(f"{self.path}: this shard was changed while it was in use; start again")
            spans = {
                name: (offset, size) for name, (offset, size) in zip(KINDS, self.spans[index].tolist(), strict=True)
            }
            return {name: handle.read(spans[name], self.place(index)) for name in names if spans[name] != MISSING}

    def place(self, index: int) -> str:
        return f"{self.path}, record {self.keys[index]}"


def open_shard(path: Path, check: Check, kept_in: Path | None = None) -> Shard:
    """Indexes a shard; records for which `check` raises BadText are faults. Stores the index in `kept_in`."""
    with _opened(path) as handle:
        stamp = handle.stamp
    store = None if kept_in is None else kept_in / f"{path.name}.{stamp[0]}.{stamp[1]}.json"
    known = _stored(store, path, stamp) if store else None
    if known:
        return known
    shard = _indexed(path, stamp, check)
    if store:
        write_text(store, _to_json(shard))
    return shard


def _indexed(path: Path, stamp: Span, check: Check) -> Shard:
    found: dict[str, Files] = {}
    faults: dict[str, Fault] = {}  # by record, so that each counts once
    for entry in _entries(path):
        try:
            _put(entry, found)
        except BadText as error:
            faults.setdefault(_record(entry.name)[0], Fault(f"{path}, entry {printable(entry.name)}", str(error)))
    keys, spans = list[str](), list[list[Span]]()
    with _opened(path) as handle:
        for key, files in found.items():
            place = f"{path}, record {key}"
            try:
                _require_image(files)
                _require_sizes(files)
                check({name: handle.read(files[name], place) for name in TEXT_FILES if name in files})
            except BadText as error:
                faults.setdefault(key, Fault(place, str(error)))
            else:
                keys.append(key)
                spans.append([files.get(kind, MISSING) for kind in KINDS])
    return Shard(path, *stamp, keys, np.array(spans, dtype=np.int64).reshape(-1, len(KINDS), 2), [*faults.values()])


def _entries(path: Path) -> Iterator[Entry]:
    try:
        yield from entries(path)
    except OSError as error:
        raise UserError(f"{path}: this shard cannot be read ({error.strerror or error}); check it") from None


def _put(entry: Entry, found: dict[str, Files]) -> None:
    """Adds an entry to the record it belongs to, if it is of a kind that we read."""
    name = entry.name.removeprefix("./")
    if name.startswith("/") or ".." in name.split("/") or "\\" in name:
        raise BadText("its name leads out of the shard")
    if has_surrogates(name):
        raise BadText("its name is not UTF-8 text")
    if not entry.is_file:
        raise BadText("it is a link or a device, not a file")
    key, kind = _record(entry.name)
    if key.endswith("/") or not key or kind not in KINDS:
        return
    files = found.setdefault(key, {})
    if kind in files:
        raise BadText(f"its record has another {'image' if kind == 'image' else '.' + kind}")
    files[kind] = (entry.offset, entry.size)


def _record(name: str) -> tuple[str, str]:
    """The record that an entry belongs to, and of what kind it is."""
    folders, slash, file = name.removeprefix("./").rpartition("/")
    stem, _, ending = file.partition(".")
    return f"{folders}{slash}{stem}", "image" if ending.lower() in IMAGES else ending.lower()


def _require_image(files: Files) -> None:
    if "image" not in files:
        raise BadText("there is no image beside the text")
    if not files["image"][1]:
        raise BadText("the image is empty, 0 bytes")


def _require_sizes(files: Files) -> None:
    """Raises BadText for what is too large, by its header: it is not read."""
    for kind, (_, size) in files.items():
        most = LONGEST if kind in TEXT_FILES else LARGEST
        if size > most:
            name = kind if kind == "image" else f".{kind}"
            raise BadText(f"the {name} has {size:,} bytes, and {most:,} are the most that are read")


class _opened:
    """A file to read spans from."""

    def __init__(self, path: Path):
        self.path = path

    def __enter__(self) -> _opened:
        try:
            self._handle = os.open(self.path, os.O_RDONLY)
        except OSError as error:
            raise UserError(f"{self.path}: this shard cannot be opened ({error.strerror}); check the path") from None
        status = os.fstat(self._handle)
        self.stamp = (status.st_size, status.st_mtime_ns)
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._handle)

    def read(self, span: Span, place: str) -> bytes:
        try:
            data = os.pread(self._handle, span[1], span[0])
        except OSError as error:
            raise UserError(f"{place}: this cannot be read ({error.strerror}); check the disk") from None
        if len(data) != span[1]:
            raise UserError(f"{place}: the shard ends in the middle of it; fetch it again")
        return data


def _to_json(shard: Shard) -> str:
    faults = [vars(fault) for fault in shard.faults]
    changed = {"path": str(shard.path.absolute()), "spans": shard.spans.tolist(), "faults": faults}
    return json.dumps({"version": VERSION, **vars(shard), **changed})


def _stored(store: Path, path: Path, stamp: Span) -> Shard | None:
    """An index as it was kept; None where there is none that fits."""
    try:
        kept: dict[str, Any] = json.loads(store.read_text(encoding="utf-8"))
        if (kept["version"], kept["path"], (kept["size"], kept["changed"])) != (VERSION, str(path.absolute()), stamp):
            return None
        spans = np.array(kept["spans"], dtype=np.int64).reshape(len(kept["keys"]), len(KINDS), 2)
        return Shard(path, *stamp, kept["keys"], spans, [Fault(**fault) for fault in kept["faults"]])
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError):
        return None  # it is made again
