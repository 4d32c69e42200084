"""README's table of the demo, from docs/demo-figures.json: `python tests/demo_table.py [runs/demo]` writes it, with a
run's folder after copying its figures.json there."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

from equipoise.reports.figures import FIGURES, markdown

ROOT = Path(__file__).parents[1]
STORED, README = ROOT / "docs" / "demo-figures.json", ROOT / "README.md"
BEGIN, END = "<!-- demo figures: python tests/demo_table.py runs/demo -->\n", "<!-- end of demo figures -->\n"


def with_figures(text: str) -> str:
    """The page with the table and the line below it made anew."""
    figures = json.loads(STORED.read_text(encoding="utf-8"))
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    steps = figures["training"].partition(" in ")[0]  # how long they took is another machine's
    made = f"\nMade by `make demo`, seed {figures['seed']}: {steps}, {figures['model']}.\n"
    return "".join((before, BEGIN, markdown(figures), made, END, after))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        shutil.copyfile(Path(sys.argv[1]) / FIGURES, STORED)
    README.write_text(with_figures(README.read_text(encoding="utf-8")), encoding="utf-8")
