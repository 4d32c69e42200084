"""What every figure has: a title, a caption that fits, colours that a page can swap."""

from __future__ import annotations

import io

from PIL import Image

from equipoise.io.figures import (
    CSS_VARIABLES,
    LETTERS_AN_INCH,
    SERIES,
    captioned_figure,
    panel_title,
    plain_log_scale,
    png,
    style,
    svg,
)


def drawn(caption: str = "It falls."):
    with style():
        figure = captioned_figure("Loss", caption, width=5)
        axes = figure.subplots()
        axes.plot([1, 10, 100], [3, 2, 1], color=SERIES[0])
        plain_log_scale(axes, (1, 10, 100))
        panel_title(axes, "of a run")
    return figure


def test_a_long_caption_is_wrapped_to_the_width():
    words = "the loss falls and falls " * 20
    lines = drawn(words).get_supxlabel().split("\n")
    assert len(lines) > 1
    assert " ".join(lines) == words.strip()
    assert max(map(len, lines)) <= 5 * LETTERS_AN_INCH


def test_the_ticks_are_round_numbers():
    figure = drawn()
    figure.draw_without_rendering()
    assert [label.get_text() for label in figure.axes[0].get_xticklabels()] == ["1", "10", "100"]


def test_a_page_gets_variables_and_a_file_gets_white():
    text = svg(drawn(), "Loss")
    assert text.startswith("<svg ")
    assert "var(--series-1)" in text
    assert not any(colour in text for colour in CSS_VARIABLES)
    with Image.open(io.BytesIO(png(drawn()))) as picture:
        assert picture.convert("RGB").getpixel((0, 0)) == (255, 255, 255)
