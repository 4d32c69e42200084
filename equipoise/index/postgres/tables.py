"""The tables of an index, and what they need of pgvector.

    equipoise_indexes        name, about: what `index.json` of a folder says, and the fields that filters may name
    equipoise_rows_NAME      row, key, captions, picture, of, side, fields, thumb, point

Points are `vector` (float32) or `halfvec` (float16). Candidates come from an HNSW graph or from inverted lists
(ivfflat) of pgvector, or from a look at all rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from equipoise.index.manifest import Manifest, manifest_of
from equipoise.index.postgres.connection import Address, import_psycopg
from equipoise.spaces import Euclidean, ProductSphere, Space, Sphere
from equipoise.types import UserError

TYPES = {"float32": "vector", "float16": "halfvec"}
MOST_STORED = 16_000  # numbers of a point
MOST_INDEXED = {"vector": 2000, "halfvec": 4000}
MAKE = """
CREATE TABLE IF NOT EXISTS equipoise_indexes (name text PRIMARY KEY, about jsonb NOT NULL)
"""
MAKE_ROWS = """
CREATE TABLE {rows} (row bigint PRIMARY KEY, key text NOT NULL, captions text[] NOT NULL, picture text,
"of" text NOT NULL, side jsonb NOT NULL, fields jsonb NOT NULL, thumb bytea, point {type} NOT NULL)
"""


@dataclass(frozen=True)
class Stored:
    """What the table of indexes says of one."""

    manifest: Manifest
    fields: dict[str, list[str]]


def require_fit(kind: str, dtype: str, space: Space) -> None:
    """Raise UserError for what pgvector cannot hold or search."""
    if dtype not in TYPES:
        raise UserError(f"PostgreSQL stores no {dtype}; choose --dtype {' or '.join(TYPES)}")
    most = MOST_STORED if kind == "exact" else MOST_INDEXED[TYPES[dtype]]
    if space.dim > most:
        raise UserError(
            f"pgvector takes at most {most:,} numbers a point for --kind {kind} and --dtype {dtype}, and these have "
            f"{space.dim:,}; choose --kind exact, --dtype float16, or a folder"
        )
    if kind != "exact" and not is_ordered(space):
        raise UserError(f"--kind {kind} has no candidates for the space {type(space).__name__}; choose --kind exact")


def is_ordered(space: Space) -> bool:
    """Whether an operator of pgvector orders points as the space does, or nearly."""
    return isinstance(space, Sphere | ProductSphere | Euclidean)


def is_exact(space: Space) -> bool:
    """Whether it orders them just as the space does."""
    return is_ordered(space) and not (isinstance(space, ProductSphere) and space.distance == "geodesic")


def operator(space: Space) -> str:
    return "<->" if isinstance(space, Euclidean) else "<#>"


def composed(text: str, address: Address, **parts: str) -> Any:
    """A statement with the names of tables put in as names, and words of ours as they are."""
    sql = import_psycopg().sql
    ours = {name: sql.SQL(word) for name, word in parts.items()}
    return sql.SQL(text).format(rows=sql.Identifier(address.rows), **ours)


def read_stored(cursor: Any, address: Address, lock: bool = False) -> Stored:
    """What is known of an index; raises UserError where there is none."""
    there = cursor.execute("SELECT to_regclass('equipoise_indexes') IS NOT NULL").fetchone()[0]
    ending = " FOR UPDATE" if lock else ""
    found = (
        cursor.execute(f"SELECT about FROM equipoise_indexes WHERE name = %s{ending}", [address.name]).fetchone()
        if there
        else None
    )
    if found is None:
        raise UserError(
            f"there is no index in {address.shown}; make one with `equipoise index MODEL DATA --to ADDRESS`"
        )
    try:
        return Stored(manifest_of(found[0]), {str(name): list(kinds) for name, kinds in found[0]["fields"].items()})
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UserError(f"what {address.shown} says of the index is not understood ({error}); make it again") from error
