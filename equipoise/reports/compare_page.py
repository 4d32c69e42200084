"""compare.html: settings that differ, numbers side by side and curves of several runs, in one file without scripts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from equipoise.io.atomic import write_text
from equipoise.io.figures import svg
from equipoise.reports import plots
from equipoise.reports.charts import Chart
from equipoise.reports.page import page

PAGE = "compare.html"
CURVES = {  # title -> key of metrics.jsonl, and whether it is a share
    "Recall at 1, text → image, held-out pairs": ("validation/text_to_image_R@1", True),
    "Recall at 1, image → text, held-out pairs": ("validation/image_to_text_R@1", True),
    "Accuracy, held-out pictures": ("validation/acc1", True),
    "Accuracy over subsets of modalities, held-out samples": ("validation/mean_accuracy", True),
    "Recall among modalities, held-out samples": ("validation/modal_mean_recall", True),
    "Loss": ("loss", False),
    "Logit scale exp(t)": ("logit_scale", False),
    "Modality gap, held-out pairs": ("validation/modality_gap", False),
    "Learning rate": ("learning_rate", False),
    "Pairs per second": ("pairs_per_second", False),
}
Table = Sequence[tuple[str, Sequence[tuple[str, bool]]]]  # rows: name, and for each run the text and whether it is best
SeedTable = tuple[Sequence[str], list[tuple[str, Sequence[tuple[str, bool]]]]]  # heads of its columns, and rows


def write_compare(
    path: Path,
    runs: Mapping[str, Sequence[Mapping[str, Any]]],
    settings: Table,
    numbers: Mapping[str, Table],
    told: str,
    seeds: Mapping[str, SeedTable],
) -> Path:
    """Write the page: `runs` has the records of each by its label, `numbers` a table for each evaluation, `seeds` one
    of runs that differ in their seed alone."""
    text = page(PAGE, runs=list(runs), settings=settings, numbers=numbers, told=told, seeds=seeds, curves=_curves(runs))
    write_text(path, text)
    return path


def _curves(runs: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[dict[str, Any]]:
    from markupsafe import Markup

    charts = (
        (title, plots.draw_together(Chart(title, {"": key}, percent=share), runs))
        for title, (key, share) in CURVES.items()
    )
    return [{"title": title, "svg": Markup(svg(figure, f"Curves: {title}"))} for title, figure in charts if figure]
