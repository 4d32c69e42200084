"""Making and changing an index in PostgreSQL; every change is one transaction, so that it is made whole or not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, replace
from typing import Any

from torch import Tensor

from equipoise.index.closest import Closest
from equipoise.index.columns import fields_of
from equipoise.index.filters.parse import kind_of
from equipoise.index.index import ModelNote
from equipoise.index.making import COUNTED, Making, Rows, compared, noting, require_width
from equipoise.index.manifest import Manifest
from equipoise.index.postgres.connection import Address, Database
from equipoise.index.postgres.search import PostgresIndex, written
from equipoise.index.postgres.tables import (
    MAKE,
    MAKE_ROWS,
    TYPES,
    Stored,
    composed,
    operator,
    read_stored,
    require_fit,
)
from equipoise.index.recall import measure
from equipoise.index.record_json import dumped, plain, record_table
from equipoise.index.stored_space import space_table
from equipoise.spaces import Space
from equipoise.types import UserError

COPY = 'COPY {rows} (row, key, captions, picture, "of", side, fields, thumb, point) FROM STDIN'
GRAPH = "CREATE INDEX ON {rows} USING hnsw (point {ops}) WITH (m = 16, ef_construction = 80)"
LISTS = "CREATE INDEX ON {rows} USING ivfflat (point {ops}) WITH (lists = {lists})"
Fields = dict[str, list[str]]


def prepare(address: Address, making: Making, space: Space) -> None:
    """Raise UserError where an index cannot be made so, the database cannot be reached, or it has one of that name."""
    require_fit(making.kind, making.dtype, space)
    database = Database(address)
    with database.changing() as cursor:
        _require_free(cursor, address)
    database.close()


def create(
    address: Address,
    space: Space,
    model: ModelNote,
    rows: Iterable[Rows],
    making: Making,
    queries: Tensor | None = None,
) -> dict[str, Any]:
    """Make an index where there is none of that name; gives the recall measured by the queries."""
    require_fit(making.kind, making.dtype, space)
    database = Database(address)
    start = Manifest(making.kind, making.dtype, space_table(space), model)
    truth = None if queries is None or making.is_lossless else Closest(space, queries, COUNTED)
    with database.changing() as cursor:
        _make_tables(cursor, address, f"{TYPES[making.dtype]}({space.dim})")
        stored = _add_rows(cursor, address, Stored(start, {}), space, compared(rows, truth))
        if not stored.manifest.next_row:
            raise UserError("there is nothing to index: the data has no records that can be read")
        _make_search(cursor, address, stored.manifest, space)
        _write_stored(cursor, address, stored)
    database.close()
    return {} if truth is None else _measured(address, stored, truth, making)


def _measured(address: Address, stored: Stored, truth: Closest, making: Making) -> dict[str, Any]:
    index = PostgresIndex(address)
    measured = measure(index, truth, making.recall)
    index.close()
    database = Database(address)
    with database.changing() as cursor:
        _write_stored(cursor, address, replace(stored, manifest=stored.manifest.changed(recall=measured)))
    database.close()
    return measured


def add(address: Address, rows: Iterable[Rows], replace_old: bool = False) -> int:
    """Add rows; records whose keys are there already are replaced where asked, else that raises UserError."""
    database = Database(address)
    with database.changing() as cursor:
        stored = read_stored(cursor, address, lock=True)
        first, keys = stored.manifest.next_row, set[str]()
        stored = _add_rows(cursor, address, stored, stored.manifest.built_space(address.shown), noting(rows, keys))
        old = composed("SELECT key FROM {rows} WHERE row < %s AND key = ANY(%s) LIMIT 1", address)
        found = cursor.execute(old, [first, list(keys)]).fetchone()
        if found and not replace_old:
            raise UserError(
                f'the index has a record "{found[0]}" already; replace such with --replace, or delete them first'
            )
        cursor.execute(composed("DELETE FROM {rows} WHERE row < %s AND key = ANY(%s)", address), [first, list(keys)])
        _write_stored(cursor, address, stored)
    database.close()
    return stored.manifest.next_row - first


def delete(address: Address, keys: set[str], where: str = "") -> int:
    """Delete the rows of these keys, or those that a filter lets through; gives how many."""
    index = PostgresIndex(address)
    holds, values = index.condition(where)
    statement = composed(
        "DELETE FROM {rows} WHERE key = ANY(%s) OR {where}", address, where=holds if where else "false"
    )
    with index.database.changing() as cursor:
        count = int(cursor.execute(statement, [list(keys), *values]).rowcount)
    index.close()
    return count


def _make_tables(cursor: Any, address: Address, kind: str) -> None:
    there = cursor.execute("SELECT count(*) FROM pg_available_extensions WHERE name = 'vector'").fetchone()[0]
    if not there:
        raise UserError(f"{address.shown} has no pgvector; install it on the server, or make the index in a folder")
    cursor.execute("CREATE EXTENSION IF NOT EXISTS vector")
    _require_free(cursor, address)
    cursor.execute(composed(MAKE_ROWS, address, type=kind))
    cursor.execute(composed("CREATE INDEX ON {rows} (key)", address))


def _require_free(cursor: Any, address: Address) -> None:
    cursor.execute(MAKE)
    if cursor.execute("SELECT 1 FROM equipoise_indexes WHERE name = %s", [address.name]).fetchone():
        raise UserError(
            f"there is an index in {address.shown} already; add to it with `equipoise index add`, or name another "
            "behind a # at the end of the address"
        )


def _make_search(cursor: Any, address: Address, manifest: Manifest, space: Space) -> None:
    ops = f"{TYPES[manifest.dtype]}_{'l2' if operator(space) == '<->' else 'ip'}_ops"
    if manifest.kind == "hnsw":
        cursor.execute(composed(GRAPH, address, ops=ops))
    elif manifest.kind == "ivf":
        lists = max(1, int(manifest.next_row**0.5))
        cursor.execute(composed(LISTS, address, ops=ops, lists=str(lists)))


def _add_rows(cursor: Any, address: Address, stored: Stored, space: Space, parts: Iterable[Rows]) -> Stored:
    manifest, fields = stored.manifest, {name: list(kinds) for name, kinds in stored.fields.items()}
    row = manifest.next_row
    with cursor.copy(composed(COPY, address)) as copy:
        for part in parts:
            require_width(part.points, space)
            for values in _lines(part, row, fields):
                copy.write_row(values)
            row += len(part.points)
    return Stored(manifest.changed(next_row=row), fields)


def _lines(part: Rows, first: int, fields: Fields) -> Iterator[tuple[Any, ...]]:
    for number, (point, record, thumb) in enumerate(zip(part.points.float(), part.records, part.thumbs, strict=True)):
        known = fields_of(record)
        for name, value in known.items():
            kinds = fields.setdefault(name, [])
            if kind_of(value) not in kinds:
                kinds.append(kind_of(value))
        table = record_table(record)
        words = plain([record.key, record.captions, record.picture, record.of])  # it has no text with a zero byte
        yield first + number, *words, dumped(table["side"]), dumped(plain(known)), thumb, written(point)


def _write_stored(cursor: Any, address: Address, stored: Stored) -> None:
    about = dumped({**asdict(stored.manifest), "fields": stored.fields})
    cursor.execute(
        "INSERT INTO equipoise_indexes VALUES (%s, %s::jsonb) ON CONFLICT (name) DO UPDATE SET about = excluded.about",
        [address.name, about],
    )
