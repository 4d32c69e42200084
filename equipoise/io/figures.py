"""Figures in one style for the whole project.

Figures are `Figure` objects, never pyplot's global state. Colours are Okabe and Ito's, told apart with any colour
vision. `svg` swaps them for CSS variables, so a figure within a page follows its light or dark scheme and its font;
`png` keeps them, for a figure that stands alone. matplotlib is imported where something is drawn.
"""

from __future__ import annotations

import io
import re
import textwrap
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, GRID, PAPER = "#3c4450", "#e3e7ec", "#fefefe"
SERIES = ("#0072b2", "#d55e00", "#009e73", "#cc79a7")
SERIES_STYLES = (
    "-",
    (0, (5, 2)),
    (0, (1, 1.5)),
    (0, (5, 1.5, 1, 1.5)),
)  # so that colour is not all that tells them apart
CSS_VARIABLES = {INK: "--ink-soft", GRID: "--line", PAPER: "--card"} | {
    colour: f"--series-{number}" for number, colour in enumerate(SERIES, start=1)
}
LETTERS_AN_INCH = 14.5  # of a caption, at its size


def style() -> AbstractContextManager[None]:
    """The project's look, as a context."""
    import matplotlib as mpl

    return mpl.rc_context(
        {
            "font.family": "sans-serif", "font.size": 9, "text.color": INK,
            "axes.edgecolor": GRID, "axes.labelcolor": INK, "axes.facecolor": "none", "axes.grid": True,
            "axes.spines.top": False, "axes.spines.right": False, "axes.spines.left": False, "axes.axisbelow": True,
            "grid.color": GRID, "grid.linewidth": 0.7, "lines.linewidth": 1.7, "lines.solid_capstyle": "round",
            "xtick.color": INK, "ytick.color": INK, "xtick.major.size": 0, "ytick.major.size": 0,
            "ytick.minor.size": 0, "legend.frameon": False, "legend.fontsize": 8.5,
            "figure.facecolor": "none", "savefig.facecolor": "none", "svg.fonttype": "none",
        }
    )  # fmt: skip


def captioned_figure(title: str, caption: str, width: float = 8.0, height: float = 3.9) -> Figure:
    """An empty figure with a title above and a caption below; called inside `style()`."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    figure.get_layout_engine().set(w_pad=0.08, h_pad=0.08)  # type: ignore[union-attr, call-arg]
    figure.suptitle(title, x=0.012, ha="left", fontsize=12, fontweight="bold", color=INK)
    lines = textwrap.wrap(caption, round(LETTERS_AN_INCH * width))
    figure.supxlabel("\n".join(lines), x=0.012, ha="left", fontsize=9, color=INK, linespacing=1.4)
    return figure


def panel_title(axes: Axes, text: str) -> None:
    axes.set_title(text, loc="left", fontsize=9.5, color=INK)


def plain_log_scale(axes: Axes, ticks: tuple[float, ...]) -> None:
    """A logarithmic x axis with a few round numbers."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    axes.set_xscale("log")
    axes.xaxis.set_major_locator(FixedLocator(ticks))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))


def svg(figure: Figure, label: str) -> str:
    """The figure as an `<svg>` element to be put into a page, read aloud as `label`."""
    import matplotlib as mpl

    buffer = io.StringIO()
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": label}):
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>", "", text, flags=re.DOTALL)
    text = re.sub(r'<g id="[^"]*"', "<g", text)  # ids are for the whole page, and figures would share these
    text = re.sub(r"font-family: [^;\"]*", "font-family: inherit", text)
    for colour, variable in CSS_VARIABLES.items():
        text = text.replace(colour, f"var({variable})")
    return re.sub(r'<svg [^>]*?(viewBox="[^"]*")[^>]*>', rf'<svg \1 role="img" aria-label="{label}">', text, count=1)


def png(figure: Figure, dpi: int = 160) -> bytes:
    """The figure as a PNG on white."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=dpi, facecolor="white")
    return buffer.getvalue()
