"""Which cells a claim needs (trials of sweeps first, then all seeds of the best) and what their numbers come to."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from equipoise.claims.claim import SMALL, TUNING_SEEDS, Claim, Row
from equipoise.claims.metric import METRICS, VALIDATION
from equipoise.claims.result import Result, RowResult
from equipoise.workflows.claims.cell import Cell, cell_of

Trial = tuple[str, ...]


def trials_of(row: Row, scale: str) -> tuple[Trial, ...]:
    """Those of its sweep; at the scale small the middle one alone."""
    return (row.sweep[len(row.sweep) // 2],) if scale == SMALL else row.sweep


def starts(claims: Iterable[Claim], scale: str, seeds: int) -> list[Cell]:
    rows = (row for claim in claims for row in claim.rows if row.start)
    return _once(cell.start for row in rows for seed in range(seeds) if (cell := cell_of(row, (), seed, scale)).start)


def tuning(claims: Iterable[Claim], scale: str, seeds: int) -> list[Cell]:
    """The cells by which trials are chosen; none of rows with a single one. Seeds are the outer loop."""
    swept = [row for claim in claims for row in claim.rows if len(trials_of(row, scale)) > 1]
    return _once(
        cell_of(row, trial, seed, scale)
        for seed in range(min(TUNING_SEEDS, seeds))
        for row in swept
        for trial in trials_of(row, scale)
    )


def reported(claims: Iterable[Claim], scale: str, seeds: int, folder: Path) -> list[Cell]:
    """The cells of the chosen trials, as far as they can be told already."""
    chosen = [
        (row, trial)
        for claim in claims
        for row in claim.rows
        if (trial := choose(claim, row, scale, seeds, folder)[0]) is not None
    ]
    return _once(cell_of(row, trial, seed, scale) for seed in range(seeds) for row, trial in chosen)


def known_cells(claims: Sequence[Claim], scale: str, seeds: int, folder: Path) -> Iterator[Cell]:
    """All cells that can be told already, in the order in which they are made: starts, trials, all seeds of the
    chosen trials."""
    yield from starts(claims, scale, seeds)
    yield from tuning(claims, scale, seeds)
    yield from reported(claims, scale, seeds, folder)


def next_cell(claims: Sequence[Claim], scale: str, seeds: int, folder: Path, begun: Container[Cell]) -> Cell | None:
    """The first cell that is neither there nor begun, whose start is there. The cells of a claim come before those of
    the next, so that the first verdicts do not wait for the last trials."""
    for claim in claims:
        for cell in known_cells([claim], scale, seeds, folder):
            if cell not in begun and not cell.is_done(folder) and (cell.start is None or cell.start.is_done(folder)):
                return cell
    return None


def choose(claim: Claim, row: Row, scale: str, seeds: int, folder: Path) -> tuple[Trial | None, list[dict[str, Any]]]:
    """The trial with the highest mean on validation data, and what all of them gave; None while one is missing.

    A trial that diverged for one seed is out; of equal ones the first wins.
    """
    trials = trials_of(row, scale)
    if len(trials) == 1:
        return trials[0], []
    told: list[dict[str, Any]] = []
    for trial in trials:
        files = [cell_of(row, trial, seed, scale).read(folder) for seed in range(min(TUNING_SEEDS, seeds))]
        if None in files:
            return None, []
        scores = [METRICS[claim.chooses].of(file["found"], VALIDATION) for file in files if file]
        whole = [score for score in scores if score is not None]
        is_whole = len(whole) == len(scores)
        told.append({"settings": list(trial), "validation": fmean(whole) if is_whole else None})
        if is_whole and claim.curves and claim.curves.trials:
            told[-1] |= {
                "seeds": whole,
                "place": _place(claim.curves.across, [file["found"] for file in files if file]),
            }
    finished = [place for place, one in enumerate(told) if one["validation"] is not None]
    best = max(finished, key=lambda place: told[place]["validation"], default=None)
    return (trials[0] if best is None else trials[best]), told


def _place(metric: str, found: Sequence[Mapping[str, float]]) -> float | None:
    """Where a trial lies on the axis of its claim's figure; None for one that has no such number."""
    places = [place for one in found if (place := METRICS[metric].of(one, VALIDATION)) is not None]
    return fmean(places) if places else None


def gathered(name: str, claim: Claim, scale: str, seeds: int, folder: Path) -> Result:
    """What the cells that are there give, as the result of a claim."""
    rows, seen = {}, dict[str, dict[str, Any]]()
    for row in claim.rows:
        rows[row.name] = _row_result(claim, row, scale, seeds, folder, seen)
    facts = seen.values()
    return Result(
        name, scale, claim.fingerprint(), rows, _command(name, claim, scale, seeds),
        date=max((fact["date"] for fact in facts), default=""),
        commits=_all(facts, "commit"), versions=_all(facts, "version"), devices=_all(facts, "device"),
        cells=len(seen), seconds=round(sum(fact["seconds"] for fact in facts), 1),
    )  # fmt: skip


def _command(name: str, claim: Claim, scale: str, seeds: int) -> str:
    """What makes this claim anew, whichever others were run beside it and wherever."""
    folders = " --features FOLDER" * bool(claim.features) + " --data FOLDER" * bool(claim.data)
    return f"equipoise claims run {name} --scale {scale} --seeds {seeds}{folders}"


def _row_result(
    claim: Claim, row: Row, scale: str, seeds: int, folder: Path, seen: dict[str, dict[str, Any]]
) -> RowResult:
    trial, told = choose(claim, row, scale, seeds, folder)
    cells = [cell_of(row, trial or (), seed, scale) for seed in range(seeds)] if trial is not None else []
    files = [cell.read(folder) for cell in cells]
    seen |= {cell.name: file for cell, file in zip(cells, files, strict=True) if file}
    found = [file["found"] if file else {} for file in files]
    values = {metric: [METRICS[metric].of(one) for one in found] for metric in claim.metrics}
    known = {metric: column for metric, column in values.items() if any(value is not None for value in column)}
    failed = tuple(file["failed"] for file in files if file and "failed" in file)
    return RowResult(tuple(trial or ()), tuple(told), known, failed)


def _all(facts: Iterable[Mapping[str, Any]], name: str) -> tuple[str, ...]:
    return tuple(sorted({str(fact[name]) for fact in facts if fact.get(name)}))


def _once(cells: Iterable[Cell | None]) -> list[Cell]:
    return list(dict.fromkeys(cell for cell in cells if cell))


def count(claims: Sequence[Claim], scale: str, seeds: int) -> int:
    """Cells that are needed at most: rows of several claims may turn out to share those of the chosen trials."""
    tuned = len(tuning(claims, scale, seeds)) + len(starts(claims, scale, seeds))
    rows = {repr(row).partition("recipe=")[2]: row for claim in claims for row in claim.rows}.values()
    further = sum(seeds - (min(TUNING_SEEDS, seeds) if len(trials_of(row, scale)) > 1 else 0) for row in rows)
    return tuned + further
