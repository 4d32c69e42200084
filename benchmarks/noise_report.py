"""What the noise bench found, as tables and a picture: gains over training on all pairs, and how far to the bound."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
from cells import PRECISION, RECALL, SEED, ZERO_SHOT, Found, Row, paired, table
from noise_cells import Cells, found_in, named_in
from noise_rows import BOUND, CLEAN, DRAWN, NOISY, OURS

from equipoise.claims.interval import mean_interval

MEAN_RECALL = "mean recall"
BY = {**RECALL, MEAN_RECALL: "retrieval/mean_recall", **ZERO_SHOT}  # what ways may be compared by
BY_FILE = {name: key.replace("matching/", "retrieval/") for name, key in PRECISION.items()}
NAMED = {
    "share read": "read", "AUROC": "auroc", "wrong among kept": "wrong_among_kept", "right ones dropped":
    "right_dropped", "seconds of judging": "seconds",
}  # fmt: skip
Table = Mapping[str, Sequence[Found]]


def show(cells: Cells, rows: Sequence[Row], options: argparse.Namespace) -> None:
    """Print the tables of some cells, and draw what is to be drawn."""
    found, named = found_in(cells, rows), named_in(cells, rows)
    tables = [table(named, NAMED)] if options.judged and named else []
    if found:
        columns = _columns(found, options.data)
        gained = [gains(found, columns)] if any(name.endswith(NOISY) and found[name] for name in found) else []
        tables = [table(found, columns), *gained, *tables]
        tables += [against(found, options.against, options.by)] if options.against else []
    if not tables and not options.only_judge:
        raise SystemExit("no cell of these rows is there")
    print(*tables, sep="\n\n")
    if options.draw and found:
        draw(found, options.draw)


def _columns(found: Table, data: str) -> dict[str, str]:
    """The numbers that all tables tell: by the truth of scenes, or by a file of relevance where one was given."""
    if data in DRAWN:
        return {**RECALL, **PRECISION, **ZERO_SHOT}
    by_file = any(key in one for results in found.values() for one in results for key in BY_FILE.values())
    return {**RECALL, MEAN_RECALL: BY[MEAN_RECALL], **(BY_FILE if by_file else {})}


def gains(found: Table, columns: Mapping[str, str]) -> str:
    """Markdown: differences to the noisy row of the same share, paired by seed, with 95% bootstrap intervals."""
    lines = ["| gain over all pairs | " + " | ".join(columns) + " |", "|---|" + "---:|" * len(columns)]
    for name, results in found.items():
        share, _, what = name.partition(": ")
        pairs = paired(results, found.get(f"{share}: {NOISY}", ()))
        if what and what != NOISY and pairs:
            lines.append(f"| {name} | " + " | ".join(_gain(pairs, key) for key in columns.values()) + " |")
    return "\n".join(lines)


def _gain(pairs: Sequence[tuple[Found, Found]], key: str) -> str:
    """The mean difference of a number with its interval; cells of before may not have it."""
    if any(key not in one for pair in pairs for one in pair):
        return "-"
    return _interval([100 * (own[key] - other[key]) for own, other in pairs], "+.1f")


def _interval(values: Sequence[float], digits: str, unit: str = "") -> str:
    middle, low, high = (format(value, digits) for value in mean_interval(values))
    return f"{middle}{unit} ({low} to {high})" if len(values) > 1 else f"{middle}{unit} (one seed)"


def ways(rows: Iterable[str]) -> list[str]:
    """What the rows with noise are called without their share."""
    return list(dict.fromkeys(name.partition(": ")[2] for name in rows if ": " in name))


def against(found: Table, ahead: str, by: str) -> str:
    """Markdown: a number of `BY`, the part that a row closes of the gap from all pairs to the truly right ones, and how
    far `ahead` is ahead of it, each paired by seed with 95% bootstrap intervals."""
    found = {name: [one for one in results if BY[by] in one] for name, results in found.items()}
    if not any(found.values()):
        raise SystemExit(f"no cell of these rows tells {by}")
    shares = list(dict.fromkeys(name.partition(": ")[0] for name in found if ": " in name))
    heads = [head for share in shares for head in (share, "of the gap", "is ahead by")]
    lines = [f"| {by}, and *{ahead}* | " + " | ".join(heads) + " |", "|---|" + "---:|" * len(heads)]
    for way in ways(name for name, results in found.items() if results):
        cells = [cell for share in shares for cell in _compared(found, share, way, ahead, BY[by])]
        lines.append(f"| {way} | " + " | ".join(cells) + " |")
    if clean := found.get(CLEAN):
        told = f"{100 * np.mean([one[BY[by]] for one in clean]):.1f}{_fewer(found, clean)}"
        lines.append(f"| {CLEAN} | " + " | ".join([told, "", ""] * len(shares)) + " |")
    return "\n".join(lines)


def _compared(found: Table, share: str, way: str, ahead: str, key: str) -> tuple[str, str, str]:
    results, first = (found.get(f"{share}: {one}", ()) for one in (way, ahead))
    if not results:
        return "", "", ""
    own = {one[SEED]: one[key] for one in results}
    between = () if way in (NOISY, BOUND) else _ends(found, share, key)
    closed = [100 * (own[seed] - low) / (high - low) for seed, low, high in between if seed in own]
    margins = [100 * (one[key] - other[key]) for one, other in paired(first, results)]
    return (
        f"{100 * np.mean(list(own.values())):.1f}{_fewer(found, results)}",
        _interval(closed, ".0f", "%") if closed else "",
        _interval(margins, "+.1f") if margins and way != ahead else "",
    )


def _fewer(found: Table, results: Sequence[Found]) -> str:
    """Of how many seeds, where other rows have more."""
    return f" (mean of {len(results)})" if len(results) < max(map(len, found.values())) else ""


def _ends(found: Table, share: str, key: str) -> list[tuple[float, float, float]]:
    """Seed, the number of all pairs and of the truly right ones, for each seed that has both."""
    pairs = paired(found.get(f"{share}: {NOISY}", ()), found.get(f"{share}: {BOUND}", ()))
    return [(low[SEED], low[key], high[key]) for low, high in pairs]


def draw(found: Table, path: Path) -> None:
    """R@1 (mean of both ways and of seeds) against noise, a line a method; the bound dashed."""
    from matplotlib import pyplot

    lines: dict[str, list[tuple[float, float]]] = {}
    for name, results in found.items():
        share, _, what = name.partition(": ")
        if results:
            r1 = 100 * float(np.mean([[one[key] for key in RECALL.values()] for one in results]))
            lines.setdefault(what or CLEAN, []).append((float(share.rstrip("%")) if what else 0.0, r1))
    clean = lines.pop(CLEAN, [])
    figure, axes = pyplot.subplots(figsize=(8, 5), layout="constrained")
    for what, points in lines.items():
        across, up = zip(*sorted([*clean, *points]), strict=True)
        style = {NOISY: "k-", BOUND: "k--"}.get(what, "-" if what in OURS else ":")
        axes.plot(across, up, style, marker="o", markersize=3, linewidth=2 if what in OURS else 1.2, label=what)
    axes.set(xlabel="captions that are wrong (%)", ylabel="R@1 (%)", ylim=(0, None))
    axes.legend(fontsize="small", frameon=False)
    figure.savefig(path, dpi=120)
