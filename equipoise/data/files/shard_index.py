"""One WebDataset shard: which records it holds and where, read once; then any record, directly.

Entries whose names differ only after the first dot make one record. An index may be kept in a folder, from where it is
mapped into memory, and is believed as long as the shard has the same size and time of change (`index_files.py`);
otherwise it stays in memory, as the same compact bytes (`packed_index.py`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from equipoise.data.bad_records import Fault, printable
from equipoise.data.files.captions import LONGEST, BadText, has_surrogates
from equipoise.data.files.index_files import find_index, index_file, mapped_index, owner_of, write_index
from equipoise.data.files.packed_index import FIELDS, KINDS, Header, NotThisIndex, PackedIndex, Span, packed
from equipoise.data.files.records import IMAGES, LARGEST
from equipoise.data.files.tar_index import Entry, entries
from equipoise.types import UserError

TEXT_FILES = ("txt", "json", "cls")
SIDE_FILES = KINDS[1:]

Files = dict[str, Span]  # by file ending, or "image" whatever its kind
Check = Callable[[dict[str, bytes]], None]  # of the files of text; raises BadText


@dataclass(frozen=True)
class Shard:
    """What goes to other processes: where the index lies and how it begins, or all of it where no file holds it."""

    path: Path
    check: Check
    header: bytes
    store: Path | None = None  # the file of the index
    held: PackedIndex | None = None  # the index itself, where there is no such file

    def __len__(self) -> int:
        return Header.read(self.header).records

    @property
    def faults(self) -> list[Fault]:
        return self._index().faults() if Header.read(self.header).fault_bytes else []

    def key(self, record: int) -> str:
        return self._index().key(record)

    def spans(self, record: int) -> Files:
        """Where the files of a record lie."""
        return self._index().spans(record)

    def place(self, record: int) -> str:
        return f"{self.path}, record {self.key(record)}"

    def read(self, record: int, *names: str) -> dict[str, bytes]:
        """Files of a record. Opened for each reading: no handle has to survive a fork, a thread or a long run."""
        with _opened(self.path) as handle:
            if handle.stamp != _stamp(self.header):
                raise self._changed()
            spans = self.spans(record)
            return {name: handle.read(spans[name], self.place(record)) for name in names if name in spans}

    def _index(self) -> PackedIndex:
        if self.held is not None:
            return self.held
        assert self.store is not None
        try:
            return mapped_index(self.store, self.header)
        except (OSError, NotThisIndex):  # removed or damaged meanwhile
            return self._again(self.store)

    def _again(self, store: Path) -> PackedIndex:
        """The index, made and stored once more."""
        with _opened(self.path) as handle:
            stamp = handle.stamp
        data = _indexed(self.path, stamp, self.check)
        if data[: FIELDS.size] != self.header:
            raise self._changed()
        write_index(store, data)
        return PackedIndex(data)

    def _changed(self) -> UserError:
        return UserError(f"{self.path}: this shard was changed while it was in use; start again")


def open_shard(path: Path, check: Check, kept_in: Path | None = None) -> Shard:
    """Indexes a shard; records for which `check` raises BadText are faults. Stores the index in `kept_in`."""
    with _opened(path) as handle:
        stamp = handle.stamp
    if kept_in is None:
        held = PackedIndex(_indexed(path, stamp, check))
        return Shard(path, check, bytes(held.data[: FIELDS.size]), held=held)
    store = index_file(kept_in, path)
    header = find_index(store, path, stamp)
    if header is None:
        data = _indexed(path, stamp, check)
        header = data[: FIELDS.size]
        write_index(store, data)
    return Shard(path, check, header, store)


def _stamp(header: bytes) -> Span:
    found = Header.read(header)
    return found.size, found.changed


def _indexed(path: Path, stamp: Span, check: Check) -> bytes:
    """The index of a shard, as it is stored."""
    found: dict[str, Files] = {}
    faults: dict[str, Fault] = {}  # by record, so that each counts once
    for entry in _entries(path):
        try:
            _put(entry, found)
        except BadText as error:
            faults.setdefault(_record(entry.name)[0], Fault(f"{path}, entry {printable(entry.name)}", str(error)))
    sound: dict[str, Files] = {}
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
                sound[key] = files
    return packed(owner_of(path), stamp, [*sound], [*sound.values()], [*faults.values()])


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
