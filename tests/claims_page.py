"""docs/claims.md, written from the claims and the stored results: `python tests/claims_page.py [FOLDER]`.

With FOLDER, the results in it that were made at the scale gpu are put into docs/claims/ first, and its cells into
docs/claims/cells.jsonl.gz, whole claims or not: `python tests/claims_page.py --cells FOLDER` puts those into another
folder, where `equipoise claims run NAME --scale gpu --out FOLDER` goes on with them.
"""

from __future__ import annotations

import gzip
import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from equipoise.claims.claim import GPU, Claim
from equipoise.claims.result import RESULTS, Result, results_in
from equipoise.claims.rule import Verdict
from equipoise.io.atomic import write_text
from equipoise.io.figures import png
from equipoise.workflows.claims.cell import CELLS, as_text
from equipoise.workflows.claims.listing import Judgement, by_paper, judgements
from equipoise.workflows.claims.show import drawn, interval, shown_metrics, table_rows

DOCS = Path(__file__).parents[1] / "docs"
PAGE, STORED = DOCS / "claims.md", DOCS / "claims"
PACKED = STORED / "cells.jsonl.gz"
FIGURES = (  # claims whose figure the page shows, as far as they were run
    "noise-raises-t", "range-pays-with-noise", "several-class-tokens", "softclip-by-its-guide",
    "softclip-pays-with-noise",
    "codes-beat-pooled-tokens", "sparsemax-beats-softmax", "more-codes", "m2-dose-response", "cleaning-pays",
)  # fmt: skip
MARK = "<!-- from here on: python tests/claims_page.py -->\n"


def take(folder: Path) -> list[str]:
    """Copy results of the scale gpu; their names."""
    found = {name: one for name, one in results_in(folder / RESULTS).items() if one.scale == GPU}
    for name, result in found.items():
        result.write(STORED / f"{name}.json")
    return list(found)


def pack(folder: Path) -> int:
    """Add the cells of a folder to those that are stored; how many there are then."""
    cells = stored_cells() | {
        path.stem: json.loads(path.read_text(encoding="utf-8")) for path in (folder / CELLS).glob("*.json")
    }
    lines = (json.dumps({"name": name, **cells[name]}, ensure_ascii=False) + "\n" for name in sorted(cells))
    PACKED.write_bytes(gzip.compress("".join(lines).encode(), mtime=0))
    return len(cells)


def unpack(folder: Path) -> int:
    """Write the stored cells into a folder; how many there are."""
    cells = stored_cells()
    (folder / CELLS).mkdir(parents=True, exist_ok=True)
    for name, content in cells.items():
        write_text(folder / CELLS / f"{name}.json", as_text(content))
    return len(cells)


def stored_cells() -> dict[str, dict[str, Any]]:
    lines = gzip.decompress(PACKED.read_bytes()).decode().splitlines() if PACKED.exists() else []
    return {content.pop("name"): content for content in map(json.loads, lines)}


def with_claims(text: str) -> str:
    """The page with all behind its mark made anew."""
    told = judgements()
    counts = Counter(verdict.word for _, _, verdict in told.values())
    lines = [f"{len(told)} claims: {', '.join(f'{count} {word}' for word, count in counts.most_common())}.", ""]
    for title, claims in by_paper(told).items():
        lines += [f"## {title}", "", "| claim | where | it says | verdict | found |", "|---|---|---|---|---|"]
        lines += [_line(name, *one) for name, one in claims.items()]
        lines += [line for name, one in claims.items() for line in _details(name, *one)]
        lines.append("")
    return text.partition(MARK)[0] + MARK + "\n" + "\n".join(lines).rstrip("\n") + "\n"


def _line(name: str, claim: Claim, result: Result | None, verdict: Verdict) -> str:
    theirs = f" ({claim.theirs})" if claim.theirs else ""
    found = "; ".join(f"{one.part.says}: {interval(one)}" for one in verdict.parts)
    label = f"[`{name}`](#{name})" if result else f"`{name}`"
    why = f": {verdict.why}" if verdict.why else ""
    return f"| {label} | {claim.where} | {claim.says}{theirs} | **{verdict.word}**{why} | {found} |"


def _details(name: str, claim: Claim, result: Result | None, verdict: Verdict) -> list[str]:
    if result is None:
        return []
    metrics = shown_metrics(claim, result)
    lines = ["", f"### {name}", "", f"{claim.says} **{verdict.word.capitalize()}.**", ""]
    lines += [f"| mean (lowest–highest) | {' | '.join(metrics)} | trial |", "|---|" + "---:|" * len(metrics) + "---|"]
    for row in table_rows(claim, result):
        chosen = ", ".join(f"`{text}`" for text in result.rows[row[0]].chosen)
        lines.append(f"| {' | '.join(row)} | {chosen} |")
    where = f"{' and '.join(result.devices)}, commit {', '.join(result.commits) or 'not known'}"
    cost = f"{result.cells} cells, {result.seconds:,.0f} s in all"
    shown = ["", f"![{claim.says}](images/{_picture(name)})"] if name in FIGURES else []
    return [*lines, *shown, "", f"`{result.command}`, {result.date}, {where}, {cost}."]


def _picture(name: str) -> str:
    return f"claim-{name}.png"


def draw() -> None:
    for name, (claim, result, verdict) in stored().items():
        figure = drawn(name, claim, result, verdict) if result and name in FIGURES else None
        if figure:
            (DOCS / "images" / _picture(name)).write_bytes(png(figure))


def stored() -> dict[str, Judgement]:
    return {name: one for name, one in judgements().items() if one[1]}


if __name__ == "__main__":
    if sys.argv[1:2] == ["--cells"] and len(sys.argv) == 3:
        print(f"{unpack(Path(sys.argv[2]))} cells")
        sys.exit()
    if len(sys.argv) > 1:
        print(*take(Path(sys.argv[1])), f"and {pack(Path(sys.argv[1]))} cells")
    draw()
    PAGE.write_text(with_claims(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
