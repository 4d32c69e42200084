"""`equipoise claims report`: one page with every claim, its figure, interval, command, commit, date and verdict."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from equipoise.io.figures import svg
from equipoise.io.numbers import hand_over
from equipoise.reports.claims_page import write_claims
from equipoise.types import UserError
from equipoise.workflows.claims.listing import Judgement, by_paper, judgements
from equipoise.workflows.claims.show import drawn, interval, shown_metrics, table_rows

PAGE = "claims.html"


def report_claims(out: Path) -> Path:
    if out.exists() and not out.is_dir():
        raise UserError(f"{out} is a file; name a folder with --out")
    told = judgements(out)
    papers = {title: [_told(name, *one) for name, one in claims.items()] for title, claims in by_paper(told).items()}
    path = write_claims(out / PAGE, papers)
    hand_over({"page": str(path), "verdicts": {name: verdict.word for name, (_, _, verdict) in told.items()}})
    print(f"The page of all claims is {path}")
    return path


def _told(name: str, *one: Any) -> dict[str, Any]:
    judgement: Judgement = one  # type: ignore[assignment]
    claim, result, verdict = judgement
    figure = drawn(name, claim, result, verdict) if result else None
    return {
        "name": name, "says": claim.says, "where": claim.where, "theirs": claim.theirs, "verdict": verdict.word,
        "why": verdict.why, "rule": [part.says for part in claim.parts], "result": result,
        "parts": [(judged.part.says, interval(judged), judged.word) for judged in verdict.parts],
        "metrics": shown_metrics(claim, result) if result else [],
        "rows": table_rows(claim, result) if result else [],
        "svg": svg(figure, f"Figure of the claim {name}") if figure else "",
    }  # fmt: skip
