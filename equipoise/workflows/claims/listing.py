"""`equipoise claims`: every claim with its paper, its place there, what was found and the verdict."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from equipoise.claims import CLAIMS
from equipoise.claims.claim import Claim
from equipoise.claims.result import RESULTS, Result, results_in, verdict_of
from equipoise.claims.rule import Verdict
from equipoise.io.numbers import hand_over
from equipoise.workflows.claims.run import REPOSITORY
from equipoise.workflows.claims.show import interval, verdict_numbers

STORED = REPOSITORY / "docs" / "claims"
PAPERS = {
    "sun2024temperature": "Temperature and topology: Sun & Li 2024",
    "gao2024softclip": "SoftCLIP: Gao et al. 2024",
    "chen2023fdt": "Finite discrete tokens: Chen et al. 2023",
    "oh2023geodesic": "Geodesic multi-modal mixup: Oh et al. 2023",
    "": "Of this project",
}
Judgement = tuple[Claim, Result | None, Verdict]


def judgements(out: Path | None = None) -> dict[str, Judgement]:
    """Every claim with its result and verdict: of `out` where it has one, else as the repository keeps it."""
    found = {**results_in(STORED), **(results_in(out / RESULTS) if out else {})}
    return {name: (claim, found.get(name), verdict_of(claim, found.get(name))) for name, claim in CLAIMS.items()}


def by_paper(told: dict[str, Judgement]) -> dict[str, dict[str, Judgement]]:
    return {title: {name: one for name, one in told.items() if one[0].paper == key} for key, title in PAPERS.items()}


def list_claims(out: Path | None = None) -> None:
    told = judgements(out)
    hand_over(
        {
            "claims": {
                name: {"paper": one[0].paper, "where": one[0].where, **verdict_numbers(*one)}
                for name, one in told.items()
            }
        }
    )
    for title, claims in by_paper(told).items():
        print(title)
        for name, (claim, _, verdict) in claims.items():
            print(f"  {name:26} {verdict.word:18} {claim.where}")
            print(f"  {'':26} {claim.says}")
            for judged in verdict.parts:
                print(f"  {'':26} {judged.part.says}: {interval(judged)}")
        print()
    counts = Counter(verdict.word for _, _, verdict in told.values())
    print(f"{len(told)} claims: " + ", ".join(f"{count} {word}" for word, count in counts.most_common()))
