"""The frame every picture of the laboratory has: a title, the curves, and the finding in a sentence below them."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from equipoise.reports.plots import INK

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LETTERS_AN_INCH = 14.5  # of the sentence, at its size
SERIES_STYLES = (
    "-",
    (0, (5, 2)),
    (0, (1, 1.5)),
    (0, (5, 1.5, 1, 1.5)),
)  # so that colour is not all that tells them apart


def page(title: str, finding: str, width: float = 8.0, height: float = 3.9) -> Figure:
    """An empty figure with its title and its sentence; inside `plots.style()`."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    figure.get_layout_engine().set(w_pad=0.08, h_pad=0.08)  # type: ignore[union-attr, call-arg]
    figure.suptitle(title, x=0.012, ha="left", fontsize=12, fontweight="bold", color=INK)
    lines = textwrap.wrap(finding, round(LETTERS_AN_INCH * width))
    figure.supxlabel("\n".join(lines), x=0.012, ha="left", fontsize=9, color=INK, linespacing=1.4)
    return figure


def heading(axes: Axes, text: str) -> None:
    axes.set_title(text, loc="left", fontsize=9.5, color=INK)


def plain_log_scale(axis_of: Axes, ticks: tuple[float, ...]) -> None:
    """A logarithmic x axis with a few round numbers."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    axis_of.set_xscale("log")
    axis_of.xaxis.set_major_locator(FixedLocator(ticks))
    axis_of.xaxis.set_minor_locator(NullLocator())
    axis_of.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
