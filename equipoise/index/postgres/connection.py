"""A connection to the database of an index.

    postgresql://user@host/database            the index called `equipoise`
    postgresql://user@host/database#photos     the index called `photos`

What goes wrong is one sentence with the host and the database, and never with the password.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from equipoise.index.index import Unreachable
from equipoise.types import UserError

SCHEMES = ("postgresql://", "postgres://")
USUAL_NAME = "equipoise"
SECONDS = 10  # to wait for a server
T = TypeVar("T")


def is_address(where: object) -> bool:
    return isinstance(where, str) and where.startswith(SCHEMES)


def import_psycopg() -> Any:
    try:
        import psycopg
    except ImportError as error:
        raise UserError("an index in PostgreSQL needs psycopg; pip install 'equipoise[postgres]'") from error
    return psycopg


@dataclass(frozen=True)
class Address:
    """Where an index is: what libpq is told, and the index's name there."""

    conninfo: str
    name: str

    @property
    def rows(self) -> str:
        """The table of its rows."""
        return f"equipoise_rows_{self.name}"

    @property
    def shown(self) -> str:
        """For a person, without the password."""
        try:
            parts = import_psycopg().conninfo.conninfo_to_dict(self.conninfo)
        except Exception:  # what it cannot read it must not show
            return "this address"
        place = f"{parts.get('host', 'localhost')}/{parts.get('dbname', '')}"
        return f"the database {place}" + ("" if self.name == USUAL_NAME else f"#{self.name}")


def address_of(where: str) -> Address:
    """Raises UserError for an address or a name that cannot be one."""
    psycopg = import_psycopg()
    conninfo, _, name = where.partition("#")
    if not re.fullmatch(r"[a-z_][a-z0-9_]{0,40}", name or USUAL_NAME):
        raise UserError(f'"{name[:40]}" cannot name an index; use small letters, digits and _ behind the #')
    try:
        psycopg.conninfo.conninfo_to_dict(conninfo)
    except psycopg.Error as error:
        raise UserError(f"the address of the database is not understood; write {SCHEMES[0]}user@host/name") from error
    return Address(conninfo, name or USUAL_NAME)


class Database:
    """A connection that is made when it is needed, and again where it was lost; one user at a time."""

    def __init__(self, address: Address):
        self.address, self.psycopg = address, import_psycopg()
        self._connection: Any = None
        self._lock = threading.Lock()

    def read(self, work: Callable[[Any], T]) -> T:
        """Do something with a cursor in a transaction; tried once more where the connection was lost."""
        with self._lock:
            had_one = self._connection is not None
            try:
                return self._do(work)
            except self.psycopg.OperationalError as error:
                if not had_one:
                    raise self._unreachable(error) from error
            self._drop()
            try:
                return self._do(work)
            except self.psycopg.OperationalError as error:
                raise self._unreachable(error) from error

    @contextmanager
    def changing(self) -> Iterator[Any]:
        """A cursor whose changes are all made at the end, or none of them."""
        with self._lock:
            try:
                with self._connected().transaction(), self._connection.cursor() as cursor:
                    yield cursor
            except self.psycopg.OperationalError as error:
                self._drop()
                raise self._unreachable(error) from error
            except self.psycopg.Error as error:
                raise self._refused(error) from error

    def _do(self, work: Callable[[Any], T]) -> T:
        try:
            with self._connected().transaction(), self._connection.cursor(binary=True) as cursor:
                return work(cursor)
        except self.psycopg.OperationalError:
            self._drop()
            raise
        except self.psycopg.Error as error:
            raise self._refused(error) from error

    def _connected(self) -> Any:
        if self._connection is None or self._connection.closed:
            connect = self.psycopg.connect
            self._connection = connect(self.address.conninfo, autocommit=True, connect_timeout=SECONDS)
        return self._connection

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    def close(self) -> None:
        with self._lock:
            self._drop()

    def _unreachable(self, error: Exception) -> Unreachable:
        reason = _first_line(error) if "password" not in str(error) else "the password is wrong or missing"
        return Unreachable(f"{self.address.shown} cannot be reached ({reason}); start it, or correct the address")

    def _refused(self, error: Exception) -> UserError:
        return UserError(f"{self.address.shown} refused: {_first_line(error)}; mend that and try again")


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
