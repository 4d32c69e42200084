"""Cells of the noise bench as one file that the repository keeps: what every table of docs/clean-results.md is made of.

A line of JSON a cell, sorted by row and seed, compressed without a time: the same cells are the same bytes. Of what
judges said only that stays which tables tell, and of absolute paths among the settings the last part.
"""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from cells import SEED, Found, Row, cell_name
from noise_judged import FEATURES, JUDGED_WITH

from equipoise.io.atomic import replacing

TOLD_BY_JUDGES = ("records", "captions", "noise", "interval", "rule", "kept", "judges", "truth")
FOLDERS = re.compile(r"""(?<=[=:"'\[, ])/(?:[^/"',\]]+/)+(?=[^/"',\]])""")
OF_ONE_KIND = {
    FEATURES: "read features of other weights, or of pictures of another size,",
    JUDGED_WITH: "were trained with other settings",
}
Cells = Mapping[tuple[str, int], dict[str, Any]]  # by row and seed


def gathered(folders: Iterable[Path], rows: Sequence[Row]) -> dict[tuple[str, int], dict[str, Any]]:
    """All cells in some folders, by row and seed; where several have one, that of the last. `rows` name the cells that
    were made before a cell knew its row."""
    rows_by_stem = {cell_name(row.name, 0).removesuffix("-0.json"): row.name for row in rows}
    cells = dict[tuple[str, int], dict[str, Any]]()
    for file in (file for folder in folders for file in sorted(folder.glob("*.json"))):
        cell, (stem, _, seed) = json.loads(file.read_text()), file.stem.rpartition("-")
        name = cell.get("name") or rows_by_stem.get(stem)
        if name and seed.isdigit() and "settings" in cell:
            cells[name, int(seed)] = _trimmed(cell)
    return cells


def _trimmed(cell: Mapping[str, Any]) -> dict[str, Any]:
    judged = {key: value for key, value in cell.get("judged", {}).items() if key in TOLD_BY_JUDGES}
    settings = [FOLDERS.sub("", text) for text in cell.get("settings", ())]
    about = {key: value for key, value in cell.items() if key not in ("name", SEED)}
    return {**about, "settings": settings, "judged": judged}


def pack(cells: Cells, file: Path) -> int:
    """Add cells to those in a file, in whose place they come; how many there are then."""
    kept = packed(file) if file.exists() else {}
    for (name, seed), cell in cells.items():
        if cell["settings"] != kept.get((name, seed), cell)["settings"]:
            raise SystemExit(f"{file} has the row {name}, seed {seed}, with other settings; give a file of its own")
    both = {**kept, **cells}
    _require_judges_of_one_kind(both, file)
    lines = (
        json.dumps({"name": name, SEED: seed, **both[name, seed]}, sort_keys=True, ensure_ascii=False) + "\n"
        for name, seed in sorted(both)
    )
    file.parent.mkdir(parents=True, exist_ok=True)
    with replacing(file) as temporary:
        temporary.write_bytes(gzip.compress("".join(lines).encode(), mtime=0))
    return len(both)


def _require_judges_of_one_kind(cells: Cells, file: Path) -> None:
    """Rows of one seed are compared with each other, so that their judges must have read features of one kind and have
    been trained alike."""
    kinds = dict[tuple[str, str, int], tuple[str, Any]]()
    for (name, seed), cell in cells.items():
        for kind, words in OF_ONE_KIND.items():
            if kind in cell:
                other, told = kinds.setdefault((kind, name.partition(": ")[0], seed), (name, cell[kind]))
                if told != cell[kind]:
                    raise SystemExit(
                        f"{file}, seed {seed}: the judges of the row {name} {words} than those of {other}; make both "
                        "anew alike, or give a file of its own"
                    )


def packed(file: Path) -> dict[tuple[str, int], dict[str, Any]]:
    """The cells in a file."""
    try:
        cells = [json.loads(line) for line in gzip.decompress(file.read_bytes()).decode().splitlines()]
        found = {(str(cell.pop("name")), int(cell.pop(SEED))): cell for cell in cells}
        if any(not isinstance(cell[part], dict) for cell in found.values() for part in ("found", "judged", "seconds")):
            raise TypeError("a cell has no numbers")
    except (OSError, EOFError, zlib.error, ValueError, TypeError, KeyError, AttributeError) as error:
        raise SystemExit(f"{file} cannot be read as cells ({type(error).__name__}: {error})") from None
    return found


def shares_in(cells: Cells) -> list[float]:
    """The shares of wrong captions that rows are of, by their names."""
    return sorted({float(name.partition("%")[0]) / 100 for name, _ in cells if "%: " in name})


def found_in(cells: Cells, rows: Sequence[Row]) -> dict[str, list[Found]]:
    """What every row reached, in the order of the rows, one entry a seed; rows that were only judged are left out."""
    return _by_row(rows, {key: cell["found"] for key, cell in cells.items()})


def named_in(cells: Cells, rows: Sequence[Row]) -> dict[str, list[Found]]:
    """What the judges of every row said of the pairs: the share read, and the truth about it where that is known."""
    return _by_row(rows, {key: _named(cell) for key, cell in cells.items()})


def _named(cell: Mapping[str, Any]) -> Found:
    judged = cell["judged"]
    if not judged:
        return {}
    truth = judged["truth"]
    found = {"read": judged["noise"], "seconds": cell["seconds"]["judging"]}
    if "auroc_of_captions" in truth:
        found["auroc"] = truth["auroc_of_captions"]
    if judged["rule"]["rule"] != "weights":  # which keep all
        found |= {key: truth[key] for key in ("wrong_among_kept", "right_dropped") if key in truth}
    return found


def _by_row(rows: Sequence[Row], values: Mapping[tuple[str, int], Found]) -> dict[str, list[Found]]:
    seeds = sorted({seed for _, seed in values})
    by_row = {
        row.name: [{**found, SEED: seed} for seed in seeds if (found := values.get((row.name, seed)))] for row in rows
    }
    return {name: found for name, found in by_row.items() if found}
