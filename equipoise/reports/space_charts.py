"""How the points of the test set lie: the histogram of similarities and the map of the embedding, for a report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from equipoise.io.figures import svg
from equipoise.reports.embedding_map import LINES, Sample, draw_map, make_map, sample_pairs
from equipoise.reports.held_out import HeldOut
from equipoise.reports.similarities import Histogram, draw_histogram, similarity_histogram

HISTOGRAM, MAP = "Similarities", "Map of the embedding"


@dataclass(frozen=True)
class SpaceData:
    """What the charts are drawn of; small, whatever the size of the test set."""

    histogram: Histogram | None = None
    sample: Sample | None = None
    map: str = "pca"

    def charts(self) -> list[dict[str, Any]]:
        """Titles, notes and pictures, as the template shows them."""
        found = []
        if self.histogram:
            note = f"The less the two overlap, the better pairs are told apart. {self.histogram.sample}"
            found.append(_chart(HISTOGRAM, note, svg(draw_histogram(self.histogram), HISTOGRAM)))
        if self.sample:
            picture = svg(draw_map(make_map(self.sample, self.map)), MAP)
            found.append(_chart(MAP, f"{self._method()} {_drawn(self.sample)}", picture))
        return found

    def _method(self) -> str:
        if self.map == "umap":
            return "UMAP: neighbours stay together, but long distances mean little."
        return "PCA: the two directions in which the points vary most."


def gather_space(data: HeldOut, method: str) -> SpaceData:
    return SpaceData(similarity_histogram(data), sample_pairs(data), method)


def _drawn(sample: Sample) -> str:
    pairs = len(sample.points) // 2
    which = f"All {pairs:,} pairs" if pairs == sample.of else f"{pairs:,} of {sample.of:,} pairs, evenly spaced"
    joined = "" if pairs <= LINES else f" {LINES} of"
    return f"{which}; lines join{joined} the images and their captions."


def _chart(title: str, note: str, picture: str) -> dict[str, Any]:
    from markupsafe import Markup

    return {"title": title, "note": note, "svg": Markup(picture)}
