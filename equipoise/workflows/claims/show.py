"""A claim as people read it: its table, its verdict, its figure."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Any

from equipoise.claims.claim import Claim
from equipoise.claims.metric import METRICS
from equipoise.claims.result import Result
from equipoise.claims.rule import NO_VERDICT, Judged, Verdict
from equipoise.io.tables import make_table, print_tables
from equipoise.reports.claim_figure import Point, draw_claim, draw_curves

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def print_claim(name: str, claim: Claim, result: Result | None, verdict: Verdict) -> None:
    print(f"\n{name}: {claim.says}")
    if result:
        print_tables(make_table(("", *shown_metrics(claim, result)), table_rows(claim, result)))
    for judged in verdict.parts:
        word = "" if verdict.word == NO_VERDICT else f", {judged.word}"
        print(f"  {judged.part.says}: {interval(judged)}{word}")
    print(verdict_line(verdict))


def verdict_line(verdict: Verdict) -> str:
    return f"verdict: {verdict.word}" + (f" ({verdict.why})" if verdict.why else "")


def shown_metrics(claim: Claim, result: Result) -> list[str]:
    """Those that any row has."""
    return [name for name in claim.metrics if any(name in row.values for row in result.rows.values())]


def table_rows(claim: Claim, result: Result) -> list[tuple[str, ...]]:
    """A row each: its name, and mean with lowest and highest of every metric."""
    metrics = shown_metrics(claim, result)
    return [
        (name, *(spread(metric, row.values.get(metric, ())) for metric in metrics)) for name, row in result.rows.items()
    ]


def spread(metric: str, values: Sequence[float | None]) -> str:
    known = [value for value in values if value is not None]
    if not known:
        return "-"
    digits = METRICS[metric].digits
    until = "–" if min(known) >= 0 else " to "
    return f"{fmean(known):.{digits}f} ({min(known):.{digits}f}{until}{max(known):.{digits}f})"


def interval(judged: Judged) -> str:
    digits = METRICS[judged.part.metric].digits + 1
    return f"{judged.mean:+.{digits}f} ({judged.low:+.{digits}f} to {judged.high:+.{digits}f}) {judged.part.metric}"


def verdict_numbers(claim: Claim, result: Result | None, verdict: Verdict) -> dict[str, Any]:
    parts = [
        {"says": one.part.says, "mean": one.mean, "low": one.low, "high": one.high, "verdict": one.word}
        for one in verdict.parts
    ]
    return {
        "says": claim.says, "verdict": verdict.word, "why": verdict.why, "parts": parts,
        "rows": result.values if result else {},
    }  # fmt: skip


def drawn(name: str, claim: Claim, result: Result, verdict: Verdict) -> Figure | None:
    """None where no row has a number."""
    rows = {
        row: [value for value in found.values.get(claim.metric, ()) if value is not None]
        for row, found in result.rows.items()
    }
    if not any(rows.values()):
        return None
    series = curve_series(claim, result)
    parts = [(one.part.says, one.mean, one.low, one.high, one.part.margin, one.part.level) for one in verdict.parts]
    line = verdict_line(verdict)
    caption = f"{claim.says} {line[:1].upper()}{line[1:]}."
    if series and claim.curves:
        means, across = METRICS[claim.metric].means, claim.curves.across
        across = METRICS[across].means if claim.curves.gains or claim.curves.trials else across
        means = f"gain in {means}" if claim.curves.gains else means
        means = f"{METRICS[claim.chooses].means}; all trials, validation data" if claim.curves.trials else means
        levels = level_lines(claim, result)
        return draw_curves(name, caption, means, across, series, parts, levels=levels, log=claim.curves.log)
    return draw_claim(name, caption, METRICS[claim.metric].means, rows, parts)


def curve_series(claim: Claim, result: Result) -> dict[str, list[Point]]:
    """Lines of points (place, mean, lowest, highest), as far as their rows are there."""
    if not claim.curves:
        return {}
    series = {
        label: [(place, *point) for place, row in points if (point := _extent(_column(result, row, claim.metric)))]
        for label, points in claim.curves.lines
    }
    gains = [_gain(claim, result, idea, base) for idea, base in claim.curves.gains]
    series |= {"gain": sorted(point for point in gains if point)} if claim.curves.gains else {}
    series |= {row: _trials(result, row) for row in claim.curves.trials}
    return {label: points for label, points in series.items() if points}


def level_lines(claim: Claim, result: Result) -> dict[str, float]:
    """Rows that have no place on the axis of trials: their best trial on validation data."""
    rows = claim.curves.levels if claim.curves else ()
    scores = {row: [one["validation"] for one in result.rows[row].trials] for row in rows if row in result.rows}
    known = {row: [score for score in some if score is not None] for row, some in scores.items()}
    return {row: max(some) for row, some in known.items() if some}


def _trials(result: Result, row: str) -> list[Point]:
    told = result.rows[row].trials if row in result.rows else ()
    placed = [one for one in told if one.get("place") is not None]
    return sorted((one["place"], fmean(one["seeds"]), min(one["seeds"]), max(one["seeds"])) for one in placed)


def _gain(claim: Claim, result: Result, idea: str, base: str) -> Point | None:
    """How far a row is ahead of another, by seed, at the place that a metric of its own gives."""
    assert claim.curves
    pairs = zip(_column(result, idea, claim.metric), _column(result, base, claim.metric), strict=False)
    gain = _extent([one - other for one, other in pairs if one is not None and other is not None])
    place = _extent(_column(result, idea, claim.curves.across))
    return (place[0], *gain) if gain and place else None


def _column(result: Result, row: str, metric: str) -> Sequence[float | None]:
    return result.rows[row].values.get(metric, ()) if row in result.rows else ()


def _extent(values: Sequence[float | None]) -> tuple[float, float, float] | None:
    known = [value for value in values if value is not None]
    return (fmean(known), min(known), max(known)) if known else None
