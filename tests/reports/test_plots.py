"""Curves: what is drawn, and what the page is given."""

import io
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image

from equipoise.io.figures import CSS_VARIABLES, png, svg
from equipoise.reports.charts import Chart, charts
from equipoise.reports.plots import BINS, binned, draw, series

LOSS = next(chart for chart in charts() if chart.title == "Loss")
RECORDS = [{"step": step, "loss": 5 / step, "logit_scale": 14.0 + step} for step in range(1, 1001)]
RECORDS += [{"step": step, "validation/text_to_image_R@1": step / 1000} for step in range(100, 1001, 100)]


def test_series_leaves_out_what_is_missing_or_not_finite():
    records = [{"step": 1, "loss": 2.0}, {"step": 2, "loss": float("nan")}, {"step": 3}, {"step": 4, "loss": 1.0}]
    assert series(records, "loss").tolist() == [[1, 2], [4, 1]]
    assert series(records, "other").shape == (0, 2)


@pytest.mark.parametrize("count", [1, 7, BINS, BINS + 1, 5000])
def test_bins_keep_every_value_within_their_band(count):
    points = np.column_stack([np.arange(count), np.random.default_rng(0).normal(size=count)])
    rows = binned(points)
    assert len(rows) == min(count, BINS)
    assert rows[:, 2].min() == points[:, 1].min()
    assert rows[:, 3].max() == points[:, 1].max()
    assert (rows[:, 2] <= rows[:, 1] + 1e-12).all()
    assert (rows[:, 1] <= rows[:, 3] + 1e-12).all()
    sizes = [len(group) for group in np.array_split(points, len(rows))]
    assert np.average(rows[:, 1], weights=sizes) == pytest.approx(points[:, 1].mean())


def test_a_chart_without_data_is_not_drawn():
    assert draw(Chart("Nothing", {"": "absent"}), RECORDS) is None


def test_lines_and_clamp_are_where_the_data_say():
    scale = next(chart for chart in charts(clamp=2000.0) if chart.title.startswith("Logit scale"))
    axes = draw(scale, RECORDS).axes[0]
    curve, clamp = axes.lines
    assert curve.get_ydata()[-1] == pytest.approx(np.mean([14.0 + s for s in range(995, 1001)]), abs=1)
    assert set(clamp.get_ydata()) == {2000.0}
    assert axes.get_ylim()[1] > 2000


def test_a_negative_loss_is_not_cut_off():
    figure = draw(Chart("Loss", {"": "loss"}), [{"step": 1, "loss": 1.0}, {"step": 2, "loss": -3.0}])
    assert figure.axes[0].get_ylim()[0] <= -3


def test_svg_follows_the_page():
    for chart in charts(clamp=100.0):
        if (figure := draw(chart, RECORDS)) is None:
            continue
        text = svg(figure, chart.title)
        root = ElementTree.fromstring(text.replace("xlink:", ""))
        assert root.attrib["role"] == "img"
        assert root.attrib["aria-label"] == chart.title
        assert "width" not in root.attrib
        assert not any(colour in text for colour in CSS_VARIABLES)
        assert "var(--series-1)" in text
        assert "<style" not in text
        assert "DejaVu" not in text
        assert text == svg(draw(chart, RECORDS), chart.title)  # the same data give the same bytes


def test_what_a_model_tells_of_itself_is_drawn_where_it_tells_it():
    told = [{"step": n, "bias": -10.0 + n, "codes/active_image": n, "codes/dead": 0.1} for n in (1, 2, 3)]
    shown = [chart.title for chart in charts() if draw(chart, told) is not None]
    assert shown == ["Bias of the logits", "Active codes", "Codes shared and dead"]


def test_png_stands_alone():
    image = Image.open(io.BytesIO(png(draw(LOSS, RECORDS))))
    assert image.getpixel((0, 0))[:3] == (255, 255, 255)
    assert len(set(image.convert("RGB").getdata())) > 10


def test_figures_leave_global_state_alone():
    import matplotlib as mpl

    before = dict(mpl.rcParams)
    svg(draw(LOSS, RECORDS), "loss")
    assert dict(mpl.rcParams) == before
