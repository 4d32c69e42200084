"""An index by where it is: a folder, or an address that begins with postgresql://."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from torch import Tensor

from equipoise.index import write
from equipoise.index.folder import FolderIndex
from equipoise.index.index import Index, ModelNote
from equipoise.index.making import Making, Rows
from equipoise.index.postgres import write as postgres_write
from equipoise.index.postgres.connection import Address, address_of, is_address
from equipoise.index.postgres.search import PostgresIndex
from equipoise.spaces import Space


def open_index(where: str | Path) -> Index:
    """The index in a folder, or at an address that begins with postgresql://. The files of a folder are compared with
    their digests."""
    return (
        PostgresIndex(address_of(where)) if isinstance(where, str) and is_address(where) else FolderIndex(Path(where))
    )


class Store(Protocol):
    """A place for an index, that can be made and changed there."""

    def prepare(self, making: Making, space: Space) -> None:
        """Raise UserError where an index cannot be made so, or there is one, before any work is done."""
        ...

    def create(
        self, space: Space, model: ModelNote, rows: Iterable[Rows], making: Making, queries: Tensor | None
    ) -> dict[str, Any]: ...

    def add(self, rows: Iterable[Rows], replace: bool) -> int: ...

    def delete(self, keys: set[str], where: str) -> int: ...


@dataclass(frozen=True)
class FolderStore:
    folder: Path

    def prepare(self, making: Making, space: Space) -> None:
        write.prepare(self.folder, making, space)

    def create(
        self, space: Space, model: ModelNote, rows: Iterable[Rows], making: Making, queries: Tensor | None
    ) -> dict[str, Any]:
        return write.create(self.folder, space, model, rows, making, queries)

    def add(self, rows: Iterable[Rows], replace: bool) -> int:
        return write.add(self.folder, rows, replace)

    def delete(self, keys: set[str], where: str) -> int:
        return write.delete(self.folder, keys, where)


@dataclass(frozen=True)
class PostgresStore:
    address: Address

    def prepare(self, making: Making, space: Space) -> None:
        postgres_write.prepare(self.address, making, space)

    def create(
        self, space: Space, model: ModelNote, rows: Iterable[Rows], making: Making, queries: Tensor | None
    ) -> dict[str, Any]:
        return postgres_write.create(self.address, space, model, rows, making, queries)

    def add(self, rows: Iterable[Rows], replace: bool) -> int:
        return postgres_write.add(self.address, rows, replace)

    def delete(self, keys: set[str], where: str) -> int:
        return postgres_write.delete(self.address, keys, where)


def store_at(where: str | Path) -> Store:
    """The place for an index: a folder or a database."""
    if isinstance(where, str) and is_address(where):
        return PostgresStore(address_of(where))
    return FolderStore(Path(where))
