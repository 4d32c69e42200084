"""A contact sheet: images side by side, each enlarged, with its captions beneath. For any source of pairs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont
from torch import Tensor

from equipoise.io.atomic import replacing
from equipoise.types import UserError

CELL = 280  # pixels, the width of an image on the sheet
GAP = 20
FONT_SIZE, TITLE_SIZE = 15, 24
LINE, TITLE_LINE = 20, 32
PAPER, INK, FAINT = (252, 252, 250), (32, 33, 36), (120, 122, 128)

Font = ImageFont.FreeTypeFont | ImageFont.ImageFont


def contact_sheet(
    images: Tensor,
    captions: Sequence[Sequence[str]],
    path: Path | str,
    columns: int = 4,
    title: str = "",
    legend: str = "",
) -> None:
    """Writes a PNG of the uint8 images [N, 3, H, W], each with its captions beneath, all under a title and a legend."""
    if len(images) != len(captions) or not len(images):
        raise UserError(f"a contact sheet needs as many images as caption lists, not {len(images)} and {len(captions)}")
    font = ImageFont.load_default(size=FONT_SIZE)
    texts = [_lines(texts, font) for texts in captions]
    rows = [range(start, min(start + columns, len(images))) for start in range(0, len(images), columns)]
    tile = CELL * images.shape[2] // images.shape[3]
    heights = [tile + GAP + LINE * max(len(texts[i]) for i in row) + GAP for row in rows]
    width = GAP + (CELL + GAP) * min(columns, len(images))
    head = _head(title, legend, width - 2 * GAP, font)
    top = GAP + sum(height for *_, height in head) + (GAP // 2 if head else 0)
    sheet = Image.new("RGB", (width, top + sum(heights)), PAPER)
    pen = ImageDraw.Draw(sheet)
    place = GAP
    for text, fitting, colour, height in head:
        pen.text((GAP, place), text, fill=colour, font=fitting)
        place += height
    for row, height in zip(rows, heights, strict=True):
        for column, number in enumerate(row):
            left = GAP + column * (CELL + GAP)
            picture = Image.fromarray(images[number].permute(1, 2, 0).cpu().numpy())
            sheet.paste(picture.resize((CELL, tile), Image.Resampling.BICUBIC), (left, top))
            for line, (text, colour) in enumerate(texts[number]):
                pen.text((left, top + tile + GAP // 2 + line * LINE), text, fill=colour, font=font)
        top += height
    with replacing(Path(path)) as temporary:
        sheet.save(temporary, format="PNG")


def _head(title: str, legend: str, width: int, font: Font) -> list[tuple[str, Font, tuple[int, int, int], int]]:
    """Lines above the images: text, font, ink and height of each."""
    large = ImageFont.load_default(size=TITLE_SIZE)
    lines = [(line, large, INK, TITLE_LINE) for line in wrapped(title, large, width) if line]
    return lines + [(line, font, FAINT, LINE) for line in wrapped(legend, font, width) if line]


def _lines(captions: Sequence[str], font: Font) -> list[tuple[str, tuple[int, int, int]]]:
    """Lines of text with their ink; captions take turns in tone, so that one sees where the next begins."""
    tones = (INK, FAINT)
    return [(line, tones[i % 2]) for i, caption in enumerate(captions) for line in wrapped(caption, font, CELL)]


def wrapped(text: str, font: Font, width: float) -> list[str]:
    """The text in lines no wider than `width`, broken at spaces, and within a word only where it fills a line alone."""
    lines = [""]
    for word in text.split():
        longer = f"{lines[-1]} {word}".strip()
        if font.getlength(longer) <= width:
            lines[-1] = longer
            continue
        if lines[-1]:
            lines.append("")
        for letter in word:
            if lines[-1] and font.getlength(lines[-1] + letter) > width:
                lines.append("")
            lines[-1] += letter
    return lines
