"""An index in PostgreSQL, open for searching: pgvector gives candidates, whose similarity is computed here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from equipoise.index.closest import Closest
from equipoise.index.filters.parse import parse, require_fields
from equipoise.index.filters.sql import sql_of
from equipoise.index.index import Found, Index, Record, no_row, numbers_of
from equipoise.index.postgres.connection import Address, Database
from equipoise.index.postgres.tables import TYPES, composed, is_exact, operator, read_stored
from equipoise.index.record_json import plain, record_of

EFFORTS = {"hnsw": (40, 80, 160, 320, 640), "ivf": (4, 8, 16, 32, 64, 128)}
USUAL = {"hnsw": 160, "ivf": 16}
SETTINGS = {"hnsw": "hnsw.ef_search", "ivf": "ivfflat.probes"}
SCANS = {"hnsw": "hnsw.iterative_scan", "ivf": "ivfflat.iterative_scan"}
EACH, LEAST = 5, 50  # candidates: so many for each row asked for, and never fewer
AT_ONCE = 2000  # points that are fetched at once where all are looked at
NEAREST = "SELECT row, point::real[] FROM {rows} WHERE {where} ORDER BY point {operator} %s::{type} LIMIT %s"
EVERY = "SELECT row, point::real[] FROM {rows} WHERE {where}"
RECORDS = 'SELECT row, key, captions, picture, side, "of" FROM {rows} WHERE row = ANY(%s)'
POINTS = "SELECT row, point::real[] FROM {rows} WHERE row = ANY(%s)"


class PostgresIndex(Index):
    def __init__(self, address: Address):
        self.address, self.database = address, Database(address)
        stored = self.database.read(lambda cursor: read_stored(cursor, address))
        self.manifest, self._fields = stored.manifest, stored.fields
        self.space = self.manifest.built_space(address.shown)
        self.model, self.kind = self.manifest.model, self.manifest.kind
        self.effort = int(self.manifest.recall.get("effort", USUAL.get(self.kind, 0)))

    @property
    def efforts(self) -> tuple[int, ...]:
        return EFFORTS.get(self.kind, (0,))

    def __len__(self) -> int:
        return sum(self.modality.values())

    @property
    def modality(self) -> Mapping[str, int]:
        counted = composed('SELECT "of", count(*) FROM {rows} GROUP BY "of" ORDER BY 1', self.address)
        return self.database.read(lambda cursor: dict(cursor.execute(counted).fetchall()))

    @property
    def fields(self) -> Mapping[str, tuple[str, ...]]:
        return {name: tuple(kinds) for name, kinds in self._fields.items()}

    def _search(self, points: Tensor, k: int, where: str) -> Found:
        holds, values = self.condition(where)
        closest = Closest(self.space, points, k)
        ordered = self.kind != "exact" or is_exact(self.space)
        work = self._ask_nearest if ordered else self._ask_every
        self.database.read(lambda cursor: work(cursor, closest, holds, values))
        return closest.found()

    def condition(self, where: str) -> tuple[str, list[Any]]:
        """A filter as SQL."""
        if not where:
            return "true", []
        tree = parse(where)
        require_fields(tree, self.fields)
        return sql_of(tree)

    def _ask_nearest(self, cursor: Any, closest: Closest, holds: str, values: list[Any]) -> None:
        if self.kind != "exact":
            cursor.execute("SELECT set_config(%s, %s, true)", [SETTINGS[self.kind], str(self.effort)])
            cursor.execute("SELECT set_config(%s, 'relaxed_order', true)", [SCANS[self.kind]])  # until enough pass
        kind = TYPES[self.manifest.dtype]
        statement = composed(NEAREST, self.address, where=holds, operator=operator(self.space), type=kind)
        count = max(LEAST, EACH * closest.k)
        for number, query in enumerate(closest.queries):
            found = cursor.execute(statement, [*values, written(query), count]).fetchall()
            closest.add_own(number, *rows_and_points(found))

    def _ask_every(self, cursor: Any, closest: Closest, holds: str, values: list[Any]) -> None:
        with cursor.connection.cursor("every", binary=True) as rows:  # kept by the server, which sends a few at a time
            rows.execute(composed(EVERY, self.address, where=holds), values)
            while found := rows.fetchmany(AT_ONCE):
                closest.add(*rows_and_points(found))

    def records(self, rows: Tensor | Sequence[int]) -> list[Record]:
        wanted = numbers_of(rows)
        found = self.database.read(lambda cursor: cursor.execute(composed(RECORDS, self.address), [wanted]).fetchall())
        names = ("key", "captions", "picture", "side", "of")
        known = {row: record_of(dict(zip(names, parts, strict=True))) for row, *parts in found}
        return [_of_row(known, row) for row in wanted]

    def rows_of_keys(self, keys: set[str]) -> np.ndarray:
        statement = composed("SELECT row FROM {rows} WHERE key = ANY(%s) ORDER BY row", self.address)
        found = self.database.read(lambda cursor: cursor.execute(statement, [plain(list(keys))]).fetchall())
        return np.array([row for (row,) in found], dtype=np.int64)

    def points(self, rows: Tensor | Sequence[int]) -> Tensor:
        wanted = numbers_of(rows)
        found = self.database.read(lambda cursor: cursor.execute(composed(POINTS, self.address), [wanted]).fetchall())
        known = {row: torch.tensor(point) for row, point in found}
        return torch.stack([_of_row(known, row) for row in wanted]) if wanted else torch.empty(0, self.space.dim)

    def thumbnail(self, row: int) -> bytes | None:
        statement = composed("SELECT thumb FROM {rows} WHERE row = %s", self.address)
        found = self.database.read(lambda cursor: cursor.execute(statement, [int(row)]).fetchone())
        if found is None:
            raise no_row(row)
        return bytes(found[0]) if found[0] else None

    def close(self) -> None:
        self.database.close()


def _of_row(known: Mapping[int, Any], row: int) -> Any:
    if row not in known:
        raise no_row(row)
    return known[row]


def rows_and_points(found: Sequence[tuple[int, list[float]]]) -> tuple[Tensor, Tensor]:
    rows = torch.tensor([row for row, _ in found], dtype=torch.long)
    return rows, torch.from_numpy(np.array([point for _, point in found], dtype=np.float32))


def written(point: Tensor) -> str:
    """A point as pgvector reads it."""
    return "[" + ",".join(repr(number) for number in point.tolist()) + "]"
