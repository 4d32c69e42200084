"""An explanation as a picture: heat over what the model saw of the image, words on the colour of their relevance."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from equipoise.analysis.codebook.heatmap import coloured, spread_out
from equipoise.data.contact_sheet import FAINT, GAP, INK, PAPER, Font
from equipoise.data.decode import Picture, read_rgb
from equipoise.io.atomic import replacing
from equipoise.models.explanation import Explanation

SIDE = 320  # pixels of a picture
FONT_SIZE, LINE = 18, 30
MARK = (246, 153, 63)  # under the most relevant word
MOST_LETTERS = 600  # of a text that is drawn


def write_picture(path: Path, image: Picture, resize: str, explanations: Sequence[Explanation]) -> None:
    """Writes a PNG: the image as it was seen, and a tile for each explanation; `resize` is the preprocessing's."""
    seen = np.asarray(seen_part(read_rgb(image), resize))
    tiles = [_tile(Image.fromarray(seen), None), *(_tile(_heated(seen, one), one) for one in explanations)]
    sheet = Image.new("RGB", (sum(tile.width for tile in tiles) + GAP, max(tile.height for tile in tiles)), PAPER)
    left = 0
    for tile in tiles:
        sheet.paste(tile, (left, 0))
        left += tile.width
    with replacing(path) as temporary:
        sheet.save(temporary, format="PNG")


def seen_part(picture: Image.Image, resize: str) -> Image.Image:
    """What evaluation's preprocessing leaves of a picture, at the size of a tile: its centre, or all of it squashed."""
    if resize == "shortest":
        side = min(picture.size)
        left, top = ((length - side) // 2 for length in picture.size)
        picture = picture.crop((left, top, left + side, top + side))
    return picture.resize((SIDE, SIDE), Image.Resampling.BICUBIC)


def _heated(seen: np.ndarray, explanation: Explanation) -> Image.Image:
    places = explanation.places
    return Image.fromarray(coloured(seen[None], spread_out(places[None], SIDE, 0.5 / len(places)))[0])


def _tile(picture: Image.Image, explanation: Explanation | None) -> Image.Image:
    font = ImageFont.load_default(size=FONT_SIZE)
    lines = [] if explanation is None else list(_lines(explanation, font))
    tile = Image.new("RGB", (SIDE + GAP, 2 * GAP + SIDE + LINE * (len(lines) + 1)), PAPER)
    tile.paste(picture, (GAP, GAP))
    pen = ImageDraw.Draw(tile)
    title = "image" if explanation is None else _title(explanation)
    top = SIDE + GAP + GAP // 2
    pen.text((GAP, top), title, fill=FAINT, font=font)
    for line in lines:
        top += LINE
        left = float(GAP)
        for text, level in line:
            width = font.getlength(text)
            if level > 0:
                pen.rectangle((left - 2, top - 2, left + width + 2, top + LINE - 6), fill=_mixed(level))
            pen.text((left, top), text, fill=INK, font=font)
            left += width + font.getlength(" ")
    return tile


def _title(explanation: Explanation) -> str:
    part = f" ({', '.join(map(str, explanation.part))})" if explanation.part else ""
    return f"{explanation.method}{part}: {explanation.similarity:.3f}"


def _lines(explanation: Explanation, font: Font) -> Iterator[list[tuple[str, float]]]:
    """The text in lines of (what is drawn, its relevance from 0 to 1)."""
    line: list[tuple[str, float]] = []
    width = 0.0
    for text, level in _pieces(explanation):
        length = font.getlength(f"{text} ")
        if line and width + length > SIDE:
            yield line
            line, width = [], 0.0
        line.append((text, level))
        width += length
    yield line


def _pieces(explanation: Explanation) -> Iterator[tuple[str, float]]:
    """Words with their relevance, over the largest, and what stands between them."""
    largest = max((word.relevance for word in explanation.words), default=0.0)
    text, place = explanation.text[:MOST_LETTERS], 0
    for word in sorted(explanation.words, key=lambda one: one.start):
        if word.stop > len(text):
            break
        yield from ((piece, 0.0) for piece in text[place : word.start].split())
        yield word.text, word.relevance / largest if largest else 0.0
        place = word.stop
    yield from ((piece, 0.0) for piece in text[place:].split())


def _mixed(level: float) -> tuple[int, int, int]:
    red, green, blue = (round((1 - level) * paper + level * mark) for paper, mark in zip(PAPER, MARK, strict=True))
    return red, green, blue
