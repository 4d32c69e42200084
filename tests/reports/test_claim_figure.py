"""The figure of a claim: nothing is outside its axes, and no series hides another."""

from __future__ import annotations

import pytest
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection

from equipoise.reports.claim_figure import BESIDE, Point, draw_curves

SERIES: dict[str, list[Point]] = {
    "sphere": [(64, 41.0, 38.9, 42.9), (4096, 15.6, 13.1, 19.4)],
    "Euclidean": [(64, 41.4, 38.9, 43.0), (4096, 24.4, 22.9, 27.6)],
    "PS inner": [(64, 41.2, 38.3, 43.0), (4096, 18.0, 13.8, 25.9)],
}


def curves(series: dict[str, list[Point]], log: bool = False) -> Axes:
    part = ("Euclidean is ahead", 8.8, 7.8, 10.2, 1.0, False)
    figure = draw_curves("name", "It says so.", "R@1", "codes", series, [part], log=log)
    figure.draw_without_rendering()
    return figure.axes[0]


def bars(axes: Axes) -> list[LineCollection]:
    return [one for one in axes.collections if isinstance(one, LineCollection)]


@pytest.mark.parametrize("log", [False, True])
def test_bars_of_all_series_are_within_the_axes(log: bool) -> None:
    axes = curves(SERIES, log)
    frame = axes.bbox
    ends = [bar.get_transform().transform(path.vertices) for bar in bars(axes) for path in bar.get_paths()]
    assert len(ends) == 6
    assert all(frame.x0 <= x <= frame.x1 and frame.y0 <= y <= frame.y1 for pair in ends for x, y in pair)


def test_bars_at_one_place_stand_beside_each_other() -> None:
    axes = curves(SERIES)
    places = [bar.get_transform().transform(bar.get_paths()[0].vertices)[0, 0] for bar in bars(axes)]
    apart = BESIDE * axes.figure.dpi / 72
    assert places[1] - places[0] == pytest.approx(apart)
    assert places[2] - places[1] == pytest.approx(apart)
    assert places[1] == pytest.approx(axes.transData.transform((64, 40))[0])


@pytest.mark.parametrize(("lowest", "lines"), [(-0.4, 2), (0.1, 1)])
def test_a_line_stands_where_gains_change_their_sign(lowest: float, lines: int) -> None:
    assert len(curves({"gain": [(6.4, 0.2, lowest, 0.6), (65.5, 0.3, 0.2, 0.4)]}).lines) == lines
