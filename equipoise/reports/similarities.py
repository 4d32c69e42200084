"""The histogram of similarities: matches beside non-matches, as in the published figures of noisy pairs.

Pairs of some images, evenly spaced in the test set, with all captions are counted; each kind is divided by its own
number, for non-matches outnumber matches by far. Similarities exist some rows at a time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from equipoise.io.figures import SERIES, SERIES_STYLES, style
from equipoise.reports.held_out import HeldOut, evenly

if TYPE_CHECKING:
    from matplotlib.figure import Figure

IMAGES = 1000  # compared with all captions, at most
FEWEST_BINS, MOST_BINS = 12, 60


@dataclass(frozen=True)
class Histogram:
    """How many pairs lie between `edges` [B + 1]: counts [B] of matches and of non-matches."""

    edges: np.ndarray
    matches: np.ndarray
    others: np.ndarray
    images: int  # that were compared,
    of: int  # of so many

    @property
    def sample(self) -> str:
        """What was counted, in words."""
        pairs = f"{self.matches.sum():,} matches and {self.others.sum():,} non-matches of the test set"
        return f"{pairs}." if self.images == self.of else f"{pairs}, from {self.images:,} of its {self.of:,} images."


@torch.no_grad()
def similarity_histogram(data: HeldOut, images: int = IMAGES) -> Histogram | None:
    """None where there are no matches, or nothing but matches."""
    chosen = evenly(len(data.images), images)
    ends, matches = [], 0
    for _, scores, matching in data.blocks(False, chosen):
        ends += [float(end) for end in scores.aminmax()]
        matches += int(matching.sum())
    edges = np.histogram_bin_edges((min(ends), max(ends)), bins(matches))
    counts = np.zeros((2, len(edges) - 1), dtype=np.int64)
    for _, scores, matching in data.blocks(False, chosen):
        for kind, values in enumerate((scores[matching], scores[~matching])):
            counts[kind] += np.histogram(values.double().cpu().numpy(), edges)[0]
    if not counts.sum(axis=1).all():
        return None
    return Histogram(edges, counts[0], counts[1], len(chosen), len(data.images))


def bins(matches: int) -> int:
    """As many as the rarer kind can fill, by Rice's rule: 2 n^(1/3)."""
    return min(MOST_BINS, max(FEWEST_BINS, math.ceil(2 * matches ** (1 / 3))))


def draw_histogram(histogram: Histogram) -> Figure:
    with style():
        from matplotlib.figure import Figure
        from matplotlib.ticker import FuncFormatter

        figure = Figure(figsize=(5.2, 3.6), layout="constrained")
        axes = figure.add_subplot()
        kinds = (("matches", histogram.matches), ("non-matches", histogram.others))
        for (label, counts), colour, dashes in zip(kinds, SERIES, SERIES_STYLES, strict=False):
            shares = counts / counts.sum()
            axes.stairs(shares, histogram.edges, fill=True, color=colour, alpha=0.22, linewidth=0)
            axes.stairs(shares, histogram.edges, color=colour, linewidth=1.5, linestyle=dashes, label=label)
        axes.set_xlabel("similarity")
        axes.set_ylabel("share of the pairs of each kind")
        axes.margins(x=0.02)
        axes.yaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{100 * share:.0f}%"))
        axes.legend(loc="best")
    return figure
