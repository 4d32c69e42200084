"""docs/claims.md, written from the claims and the stored results: `python tests/claims_page.py [FOLDER]`.

With FOLDER, the results in it that were made at the scale gpu are put into docs/claims/ first.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

from equipoise.claims.claim import GPU, Claim
from equipoise.claims.result import RESULTS, Result, results_in
from equipoise.claims.rule import Verdict
from equipoise.workflows.claims.listing import Judgement, by_paper, judgements
from equipoise.workflows.claims.show import interval, shown_metrics, table_rows

DOCS = Path(__file__).parents[1] / "docs"
PAGE, STORED = DOCS / "claims.md", DOCS / "claims"
MARK = "<!-- from here on: python tests/claims_page.py -->\n"


def take(folder: Path) -> list[str]:
    """Copy results of the scale gpu; their names."""
    found = {name: one for name, one in results_in(folder / RESULTS).items() if one.scale == GPU}
    for name, result in found.items():
        result.write(STORED / f"{name}.json")
    return list(found)


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
    where = f"{', '.join(result.devices)}, commit {', '.join(result.commits) or 'not known'}"
    cost = f"{result.cells} cells, {result.seconds:,.0f} s in all"
    return [*lines, "", f"`{result.command}`, {result.date}, {where}, {cost}."]


def stored() -> dict[str, Judgement]:
    return {name: one for name, one in judgements().items() if one[1]}


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(*take(Path(sys.argv[1])))
    PAGE.write_text(with_claims(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
