"""A keep file: a row for every caption of a data set, with the probability that it is right and what was decided.

    keep.parquet    key, caption (its number in the record, from 0), fingerprint (of its words), p_right (nan where its
                    judge knows nothing), weight, decision (keep, drop), reason, kind (another, detail, vague),
                    instead (the row whose caption takes its place, or -1; with `clean.rematch` alone)
    keep.json       version, records, captions, digest of the keys, noise and its interval, rule, recipe, judges

Rows are in the order of the data. The note is removed before the table is written and comes after it, so that a folder
with a note is whole.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from equipoise.data.keep.note import require_form
from equipoise.data.keep.rules import DROP, KEEP
from equipoise.io.atomic import replacing, write_text
from equipoise.types import UserError

TABLE, NOTE = "keep.parquet", "keep.json"
VERSION, REMATCHED = 1, 2  # the second where captions take the place of others, which the first knows nothing of
NO_OTHER = -1
NUMBERS = ("caption", "fingerprint", "p_right", "weight")
COLUMNS = ("key", "caption", "fingerprint", "p_right", "weight", "decision", "reason", "kind")
INSTEAD = "instead"
UNREADABLE = "unreadable"  # the kind of a caption whose picture cannot be read


@dataclass(frozen=True)
class KeepTable:
    """The rows, one per caption [M]."""

    keys: Sequence[str]
    captions: np.ndarray  # int32
    fingerprints: np.ndarray  # int64
    right: np.ndarray  # float32, P(right)
    keep: np.ndarray  # bool
    weight: np.ndarray  # float32: how much a caption that is kept counts
    reasons: Sequence[str]
    kinds: Sequence[str] = ()  # what is wrong with it, where anything is suspected; none where nobody asked
    instead: np.ndarray | None = None  # int64: the row of the caption that takes its place, or -1

    def __len__(self) -> int:
        return len(self.keys)

    def suspicious(self) -> np.ndarray:
        """Rows to be looked at, the least likely right first; not those that nothing is known of, nor those whose
        picture cannot be read."""
        order = np.argsort(self.right, kind="stable")
        seen = np.array([kind != UNREADABLE for kind in self.kinds or [""] * len(self)], dtype=bool)
        return order[~np.isnan(self.right[order]) & seen[order]]


def write_keep(folder: Path, table: KeepTable, note: Mapping[str, Any]) -> None:
    pyarrow, parquet = require_pyarrow(folder / TABLE)
    decisions = np.where(table.keep, KEEP, DROP)
    columns = (
        pyarrow.array(table.keys, pyarrow.string()),
        pyarrow.array(table.captions.astype(np.int32)),
        pyarrow.array(table.fingerprints.astype(np.int64)),
        pyarrow.array(table.right.astype(np.float32)),
        pyarrow.array(table.weight.astype(np.float32)),
        pyarrow.array(decisions.tolist(), pyarrow.string()),
        pyarrow.array(table.reasons, pyarrow.string()),
        pyarrow.array(table.kinds or [""] * len(table), pyarrow.string()),
    )
    named = dict(zip(COLUMNS, columns, strict=True))
    if table.instead is not None:
        named[INSTEAD] = pyarrow.array(table.instead.astype(np.int64))
    (folder / NOTE).unlink(missing_ok=True)
    with replacing(folder / TABLE) as temporary:
        parquet.write_table(pyarrow.table(named), temporary)
    whole = {"version": VERSION if table.instead is None else REMATCHED, **note}
    write_text(folder / NOTE, json.dumps(whole, indent=2, ensure_ascii=False) + "\n")


def read_keep(folder: Path) -> tuple[KeepTable, dict[str, Any]]:
    """The table and the note of a folder; raises UserError where they cannot be read."""
    note = read_note(folder)
    path = folder / TABLE
    _, parquet = require_pyarrow(path)
    try:
        columns = {name: column.combine_chunks() for name, column in _columns(parquet.read_table(path))}
        keep = _decisions(columns["decision"].to_pylist(), columns["key"], path)
        keys = columns["key"].to_pylist()
        captions, fingerprints, right, weight = (_numbers(columns[name], name, path) for name in NUMBERS)
        has_others = INSTEAD in columns or note["version"] == REMATCHED
        instead = columns[INSTEAD].to_numpy(zero_copy_only=False) if has_others else None
    except UserError:
        raise
    except KeyError as error:
        raise UserError(f"{path} has no column {error}; clean the data again") from None
    except Exception as error:  # damaged files make pyarrow raise anything
        raise UserError(f"{path} cannot be read ({_first_line(error)}); clean the data again") from error
    reasons = [""] * len(keep)  # for people alone
    kinds = [str(kind or "") for kind in columns["kind"].to_pylist()] if "kind" in columns else []
    _require_weights(weight, columns["key"], path)
    if instead is not None:
        _require_rows(instead, columns["key"], path)
    return KeepTable(keys, captions, fingerprints, right, keep, weight, reasons, kinds, instead), note


def read_note(folder: Path) -> dict[str, Any]:
    path = folder / NOTE
    if not path.is_file():
        raise UserError(f"{folder} holds no {NOTE}; give the folder of a finished `equipoise clean`")
    try:
        note = json.loads(path.read_text(encoding="utf-8"))
        version = note["version"]
    except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
        raise UserError(f"{path} cannot be read ({_first_line(error)}); clean the data again") from error
    if version not in (VERSION, REMATCHED):
        raise UserError(
            f"{path} is of version {version}, and this Equipoise reads versions {VERSION} and {REMATCHED}; clean the "
            "data again"
        )
    require_form(note, path)
    return dict(note)


def digest(keys: Iterable[str]) -> str:
    """Equal for equal keys in the same order."""
    total = hashlib.sha256()
    for key in keys:
        total.update(key.encode("utf-8", "surrogatepass") + b"\0")
    return total.hexdigest()


def _columns(table: Any) -> Iterable[tuple[str, Any]]:
    return zip(table.column_names, table.columns, strict=True)


def _decisions(decisions: Sequence[str], keys: Any, path: Path) -> np.ndarray:
    for row, decision in enumerate(decisions):
        if decision not in (KEEP, DROP):
            raise UserError(
                f'{path}: the decision on a caption of "{keys[row]}" is {decision!r}; it must be {KEEP} or {DROP}'
            )
    return np.array([decision == KEEP for decision in decisions], dtype=bool)


def _numbers(column: Any, name: str, path: Path) -> np.ndarray:
    """The numbers of a column, also where an editor wrote them as decimals."""
    values: np.ndarray = column.to_numpy(zero_copy_only=False)
    if values.dtype.kind in "iuf":
        return values
    try:
        if any(isinstance(value, str | bool) for value in values.tolist()):
            raise TypeError("a text or a truth value among them")
        return values.astype(np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise UserError(
            f'{path}: the column "{name}" holds no numbers ({_first_line(error)}); write it as numbers, or clean the '
            "data again"
        ) from error


def _require_weights(weight: np.ndarray, keys: Any, path: Path) -> None:
    if len(bad := np.flatnonzero(~((weight >= 0) & np.isfinite(weight)))):
        raise UserError(
            f'{path}: the weight of a caption of "{keys[int(bad[0])]}" is {weight[bad[0]]}; give a number of at least 0'
        )


def _require_rows(instead: np.ndarray, keys: Any, path: Path) -> None:
    right = np.issubdtype(instead.dtype, np.integer) & (instead >= NO_OTHER) & (instead < len(keys))
    if len(bad := np.flatnonzero(~right)):
        raise UserError(
            f'{path}: a caption of "{keys[int(bad[0])]}" is to be replaced by that of row {instead[bad[0]]}, and there '
            f"are rows 0 to {len(keys) - 1:,}; clean the data again"
        )


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__


def require_pyarrow(path: Path) -> tuple[Any, Any]:
    """pyarrow and its module for Parquet; raises UserError where they are not installed."""
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise UserError(f"{path}: Parquet needs pyarrow; pip install 'equipoise[parquet]'") from error
    return pyarrow, parquet
