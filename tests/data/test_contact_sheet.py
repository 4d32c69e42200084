from __future__ import annotations

from pathlib import Path

import pytest
import torch
from PIL import Image, ImageFont

from equipoise.data.contact_sheet import CELL, GAP, contact_sheet, wrapped
from equipoise.types import UserError


def test_images_stand_in_rows_with_text_beneath(tmp_path: Path) -> None:
    red, blue = torch.zeros(2, 3, 8, 8, dtype=torch.uint8)
    red[0], blue[2] = 255, 255
    contact_sheet(
        torch.stack([red, blue, red]), [["a red square"], ["blue", "as blue as can be"], []], tmp_path / "sheet.png", 2
    )
    with Image.open(tmp_path / "sheet.png") as sheet:
        assert sheet.format == "PNG"
        assert sheet.width == GAP + 2 * (CELL + GAP)
        assert sheet.getpixel((GAP + 5, GAP + 5)) == (255, 0, 0)
        assert sheet.getpixel((2 * GAP + CELL + 5, GAP + 5)) == (0, 0, 255)
        beneath = sheet.crop((GAP, GAP + CELL, GAP + CELL, GAP + CELL + 2 * GAP))
        assert min(beneath.convert("L").getdata()) < 100
    assert [path.name for path in tmp_path.iterdir()] == ["sheet.png"]


def test_no_line_is_wider_than_its_column() -> None:
    font = ImageFont.load_default(size=15)
    text = "a medium-sized solid red fish " * 5 + "x" * 200
    lines = wrapped(text, font, 150)
    assert all(font.getlength(line) <= 150 for line in lines)
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")
    assert wrapped("", font, 150) == [""]


def test_bad_input_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="as many images"):
        contact_sheet(torch.zeros(2, 3, 8, 8, dtype=torch.uint8), [["one"]], tmp_path / "sheet.png")
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(UserError, match="cannot write"):
        contact_sheet(torch.zeros(1, 3, 8, 8, dtype=torch.uint8), [["one"]], tmp_path / "file" / "sheet.png")


def test_a_title_and_a_legend_stand_above(tmp_path: Path) -> None:
    red = torch.zeros(1, 3, 8, 8, dtype=torch.uint8)
    red[:, 0] = 255
    contact_sheet(red, [["one"]], tmp_path / "plain.png")
    contact_sheet(red, [["one"]], tmp_path / "sheet.png", title="Wrong", legend="what the numbers mean " * 5)
    with Image.open(tmp_path / "plain.png") as plain, Image.open(tmp_path / "sheet.png") as sheet:
        added = sheet.height - plain.height
        assert added > 2 * GAP
        assert sheet.width == plain.width
        assert sheet.getpixel((GAP + 5, GAP + added + 5)) == (255, 0, 0)
        assert min(sheet.crop((0, 0, sheet.width, GAP + added)).convert("L").getdata()) < 100
