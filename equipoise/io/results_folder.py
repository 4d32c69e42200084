"""A folder of results, on a disk or in a store that fsspec opens: both answer the same few questions.

    features/train          a folder on a disk of this machine, a mounted one maybe
    s3://bucket/features    an object store: a file is put there whole or not at all
    gs://bucket/features    likewise
    file:///mnt/features    a disk by its address: written under another name, then moved

What goes to a store is first written to a temporary folder of this machine, by the code that writes it to a disk: the
bytes are the same. A store has no locks, so two commands must not write to one folder of it at a time.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol

from equipoise.io.atomic import LEFTOVER, clear_leftovers
from equipoise.io.folder_lock import only_writer
from equipoise.io.json_files import json_table, read_json_table
from equipoise.types import UserError

DRIVERS = {"s3": "s3fs", "gs": "gcsfs"}  # object stores, and the library by which fsspec opens each
SCHEMES = (*DRIVERS, "file")
AT_ONCE = 16  # requests


class Folder(Protocol):
    """Questions to a folder; `folder_of` makes one of a path or an address."""

    def is_here(self) -> bool:
        """Whether this machine sees the folder."""
        ...

    def names(self) -> set[str]:
        """Names of the files in it, hidden ones too."""
        ...

    def has(self, name: str) -> bool: ...

    def tables(self, names: Sequence[str], hint: str) -> Iterator[dict[str, Any]]:
        """What these JSON files hold; raises UserError with the file's name and, at its end, the hint."""
        ...

    def mark(self, name: str) -> None:
        """Make an empty file."""
        ...

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""
        ...

    def clear_leftovers(self) -> None:
        """Remove what writers that were killed left half-written."""
        ...

    def only_writer(self) -> AbstractContextManager[None]:
        """Hold the folder, where it has a lock, and clear leftovers."""
        ...

    def adding(self, name: str) -> AbstractContextManager[Path]:
        """Yield a path of that name on a disk: what is written there and beside it is in the folder at the end, the
        file of that name last."""
        ...

    def on_disk(self, names: Sequence[str]) -> AbstractContextManager[Path]:
        """Yield a folder on a disk that holds at least these files: what is added to it is in the folder at the end."""
        ...


@dataclass(frozen=True)
class DiskFolder:
    path: Path

    def is_here(self) -> bool:
        return self.path.is_dir()

    def names(self) -> set[str]:
        return set(os.listdir(self.path)) if self.path.is_dir() else set()

    def has(self, name: str) -> bool:
        return (self.path / name).exists()

    def tables(self, names: Sequence[str], hint: str) -> Iterator[dict[str, Any]]:
        return (read_json_table(self.path / name, hint) for name in names)

    def mark(self, name: str) -> None:
        (self.path / name).touch()

    def remove(self, name: str) -> None:
        (self.path / name).unlink(missing_ok=True)

    def clear_leftovers(self) -> None:
        clear_leftovers(self.path)

    def only_writer(self) -> AbstractContextManager[None]:
        return only_writer(self.path)

    def adding(self, name: str) -> AbstractContextManager[Path]:
        return nullcontext(self.path / name)

    def on_disk(self, names: Sequence[str]) -> AbstractContextManager[Path]:
        return nullcontext(self.path)


@dataclass(frozen=True)
class StoreFolder:
    url: str

    def __post_init__(self) -> None:
        scheme, _, rest = self.url.partition("://")
        if scheme not in SCHEMES or not rest.strip("/"):
            known = ", ".join(f"{name}://" for name in SCHEMES)
            raise UserError(f"{self.url}: a folder is a path on a disk, or an address that begins with {known}")
        if find_spec(self._library) is None:
            raise self._lacking()
        object.__setattr__(self, "url", self.url.rstrip("/"))

    def __str__(self) -> str:
        return self.url

    def __truediv__(self, name: str) -> StoreFolder:
        return StoreFolder(f"{self.url}/{name}")

    def is_here(self) -> bool:
        return True  # it is the same from everywhere

    def names(self) -> set[str]:
        try:
            found = self._asked(lambda files: files.ls(self.url, detail=True))
        except _NotThere:  # nothing was put there yet
            return set()
        return {entry["name"].rpartition("/")[2] for entry in found if entry["type"] == "file"}

    def has(self, name: str) -> bool:
        try:
            self._asked(lambda files: files.info(self._at(name)))  # `exists` takes every failure for a no
        except _NotThere:
            return False
        return True

    def tables(self, names: Sequence[str], hint: str) -> Iterator[dict[str, Any]]:
        for first in range(0, len(names), AT_ONCE):
            some = names[first : first + AT_ONCE]
            try:
                contents = self._each(some, lambda files, name: files.cat_file(self._at(name)))
            except _NotThere as error:
                raise UserError(
                    f"{self.url} lacks a file that belongs to it ({_reason(error.cause)}); {hint}"
                ) from error
            yield from (json_table(text, self._at(name), hint) for name, text in zip(some, contents, strict=True))

    def mark(self, name: str) -> None:
        self._asked(lambda files: files.pipe_file(self._at(name), b""))

    def remove(self, name: str) -> None:
        if self.has(name):
            self._asked(lambda files: files.rm_file(self._at(name)))

    def clear_leftovers(self) -> None:
        for name in self.names():
            if LEFTOVER.fullmatch(name):
                self.remove(name)

    @contextmanager
    def only_writer(self) -> Iterator[None]:
        self.clear_leftovers()
        yield

    @contextmanager
    def adding(self, name: str) -> Iterator[Path]:
        with TemporaryDirectory(prefix="equipoise-") as temporary:
            yield Path(temporary, name)
            for path in sorted(Path(temporary).iterdir(), key=lambda path: (path.name == name, path.name)):
                self._put(path)

    @contextmanager
    def on_disk(self, names: Sequence[str]) -> Iterator[Path]:
        with TemporaryDirectory(prefix="equipoise-") as temporary:
            self._each(names, lambda files, name: files.get_file(self._at(name), f"{temporary}/{name}"))
            yield Path(temporary)
            for name in sorted({path.name for path in Path(temporary).iterdir()} - set(names)):
                self._put(Path(temporary, name))

    def _put(self, path: Path) -> None:
        """Put a file of a disk into the store, so that nobody ever sees a part of it."""
        if self._scheme in DRIVERS:
            self._asked(lambda files: files.put_file(str(path), self._at(path.name)))
            return
        half = self._at(f".{path.name}.{os.getpid()}.tmp")
        self._asked(lambda files: files.makedirs(files._strip_protocol(self.url), exist_ok=True))
        self._asked(lambda files: files.put_file(str(path), half))
        self._asked(lambda files: files.mv(half, self._at(path.name)))

    def _each(self, names: Iterable[str], ask: Callable[[Any, str], Any]) -> list[Any]:
        """The answers for several files, asked for at once."""
        with ThreadPoolExecutor(AT_ONCE) as pool:
            return [*pool.map(lambda name: self._asked(lambda files: ask(files, name)), names)]

    def _asked(self, ask: Callable[[Any], Any]) -> Any:
        """What the store answers; every library behind fsspec has its own ways to fail, each becomes a sentence."""
        try:
            import fsspec

            return ask(fsspec.filesystem(self._scheme, use_listings_cache=False))  # others write there too
        except ImportError as error:  # on another machine than that of the command
            raise self._lacking() from error
        except FileNotFoundError as error:
            raise _NotThere(self.url, error) from error
        except PermissionError as error:
            raise UserError(
                f"{self.url}: this is not allowed ({_reason(error)}); check your keys and rights"
            ) from error
        except Exception as error:
            raise UserError(
                f"{self.url}: the store cannot be used ({_reason(error)}); check the address, your keys and the network"
            ) from error

    def _at(self, name: str) -> str:
        return f"{self.url}/{name}"

    @property
    def _scheme(self) -> str:
        return self.url.partition("://")[0]

    @property
    def _library(self) -> str:
        return DRIVERS.get(self._scheme, "fsspec")

    def _lacking(self) -> UserError:
        return UserError(f"{self.url}: this needs {self._library}; install it with: pip install {self._library}")


class _NotThere(UserError):
    """Raised where a store has nothing under a name."""

    def __init__(self, url: str, cause: FileNotFoundError):
        super().__init__(
            f"{url}: there is no such bucket or file ({_reason(cause)}); correct the address, or make it first"
        )
        self.cause = cause


Place = Path | StoreFolder  # as the command line names a folder


def folder_of(place: Place) -> Folder:
    return DiskFolder(place) if isinstance(place, Path) else place


def _reason(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
