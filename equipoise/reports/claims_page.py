"""claims.html: every claim with its table, figure, intervals and verdict, in one file without scripts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from equipoise.io.atomic import write_text
from equipoise.reports.page import page

TEMPLATE = "claims.html"


def write_claims(path: Path, papers: Mapping[str, Sequence[Mapping[str, Any]]]) -> Path:
    """Write the page; `papers` has the claims of each by its title, `svg` of a claim is a figure of ours."""
    from markupsafe import Markup

    shown = {title: [{**one, "svg": Markup(one["svg"])} for one in claims] for title, claims in papers.items()}
    counts = Counter(one["verdict"] for claims in papers.values() for one in claims).most_common()
    write_text(path, page(TEMPLATE, papers=shown, counts=counts))
    return path
