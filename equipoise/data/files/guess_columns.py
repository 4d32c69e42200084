"""Which columns of a table hold the paths of pictures and which the captions, where nobody has said.

A column of paths is one whose first fields end as pictures do; of several the one with the better known name. A Parquet
file may hold the pictures themselves. A column
of captions is known by its name, or else is the one with the most words. What divides the columns of a text is what
divides its first line most; pictures that are not beside the table may be in a folder that is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any

from equipoise.data.bad_records import printable
from equipoise.data.files.karpathy import SPLIT
from equipoise.data.files.paths import as_tuple
from equipoise.data.files.records import IMAGES
from equipoise.data.files.table_columns import SEPARATORS, Cell, csv_header, first_rows
from equipoise.data.files.table_content import require_content
from equipoise.data.files.table_parquet import PARQUET, picture_columns
from equipoise.data.files.table_splits import is_split
from equipoise.types import UserError

PATHS = (
    "filepath", "file_path", "image_path", "img_path", "path", "file_name", "filename", "image_name", "image_file",
    "image", "img", "file", "picture", "photo",
)  # fmt: skip
TEXTS = (
    "title", "caption", "captions", "text", "texts", "sentence", "sentences", "description", "comment", "alt_text",
    "alt", "raw", "txt",
)  # fmt: skip
STORED = (*PATHS, *IMAGES, "image_bytes", "image_data")  # names of columns that hold pictures
ENDINGS = (*IMAGES, "gif", "bmp", "tif", "tiff")
DIVIDERS = (",", "\t", ";", "|")
ADVICE = "say which with --set data.path=COLUMN and --set data.captions=COLUMN"


def guess_columns(file: Path, given: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of a table that are not `given`: path, captions, and where need be separator and images."""
    if not file.is_file():
        raise UserError(f"{file}: there is no such file; check the path")
    require_content(file)
    found: dict[str, Any] = {}
    if "separator" not in given and (divider := _divider(file)):
        found["separator"] = divider
    header, rows = first_rows(file, given.get("separator", found.get("separator", "")))
    if not header:
        raise UserError(f"{file}: there are no columns of text in this table; check it")
    if any(_is_picture(name) for name in header):
        raise UserError(f"{file}: its first line is no line of column names; write filepath,title there")
    inside = picture_columns(file) if file.suffix.lower() in PARQUET else []
    path = given["path"] if "path" in given else _path_column(file, header, rows, inside)
    if "path" not in given:
        found["path"] = path
    if "captions" not in given:
        found["captions"] = _caption_columns(file, [name for name in header if name != path], rows)
    if "split" not in given and (split := _split_column(header, rows)):
        found["split"] = split
    if "images" not in given and path not in inside and (folder := _pictures_folder(file, path, rows)):
        found["images"] = folder
    return found


def told(table: Mapping[str, Any]) -> str:
    """What was found, for a person."""
    captions = " and ".join(f'"{name}"' for name in as_tuple(table.get("captions", "")))
    text = f'pictures in the column "{table.get("path")}", captions in {captions}'
    text += f', splits in "{table["split"]}"' if table.get("split") else ""
    return f"{text}, pictures' paths from {table['images']}" if table.get("images") else text


def _divider(file: Path) -> str:
    """What divides the columns of a text, if it is not what its ending says."""
    usual = SEPARATORS.get(file.suffix.lower())
    if usual is None:
        return ""
    widths = {divider: len(csv_header(file, divider)) for divider in DIVIDERS}
    best = max(DIVIDERS, key=lambda divider: (widths[divider], divider == usual))
    return best if widths[usual] < 2 <= widths[best] else ""


def _path_column(
    file: Path, header: Sequence[str], rows: Sequence[Mapping[str, Cell]], inside: Sequence[str] = ()
) -> str:
    if named := [name for name in inside if _known(name) in STORED]:
        return named[0]
    shares = {name: _share(_is_picture(cell) for cell in _cells(rows, name)) for name in header}
    looks = [name for name in header if shares[name] >= 0.5]
    known = sorted((name for name in (looks or header) if _known(name) in PATHS), key=lambda n: PATHS.index(_known(n)))
    if inside and not looks:
        return inside[0]
    if known or looks:
        return (known or looks)[0]
    addresses = [name for name in header if _share(_is_address(cell) for cell in _cells(rows, name)) >= 0.5]
    if addresses:
        raise UserError(
            f'{file}: the column "{_shown(addresses[0])}" holds web addresses, which are not fetched; download the '
            "pictures first, with img2dataset say, and give what it writes"
        )
    raise UserError(f"{file}: no column of {_listed(header)} looks like paths of pictures; {ADVICE}")


def _caption_columns(file: Path, header: Sequence[str], rows: Sequence[Mapping[str, Cell]]) -> Any:
    named = sorted((name for name in header if _known(name) in TEXTS), key=lambda name: TEXTS.index(_known(name)))
    if named:
        return named[0]
    numbered = [name for name in header if re.sub(r"_?\d+$", "", _known(name)) in TEXTS]
    if numbered:
        return numbered[0] if len(numbered) == 1 else tuple(numbered)
    words = {name: _mean([len(cell.split()) for cell in _cells(rows, name)]) for name in header}
    most = max(header, key=lambda name: words[name], default="")
    if not most or words[most] < 2:
        raise UserError(f"{file}: no column of {_listed(header)} looks like captions; {ADVICE}")
    return most


def _split_column(header: Sequence[str], rows: Sequence[Mapping[str, Cell]]) -> str:
    """The column that says which split a row is of; empty where there is none."""
    named = (name for name in header if _known(name) == SPLIT)
    return next((name for name in named if (cells := _cells(rows, name)) and all(map(is_split, cells))), "")


def _pictures_folder(file: Path, path: str, rows: Sequence[Mapping[str, Cell]]) -> str:
    """The folder that paths start from, where it is not the table's; raises UserError where no picture is found."""
    names = [name for name in _cells(rows, path) if name.strip() and "\0" not in name]
    if not names or any(_exists(file.parent / name) for name in names):
        return ""
    for folder in sorted(inner for inner in file.parent.iterdir() if inner.is_dir()):
        if any(_exists(folder / name) for name in names):
            return str(folder)
    raise UserError(
        f'{file}: the pictures it names, such as "{_shown(names[0])}", are not there; say which folder their paths '
        "start from with --set data.images=FOLDER"
    )


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):  # a name that no file can have
        return False


def _cells(rows: Sequence[Mapping[str, Cell]], name: str) -> list[str]:
    """All texts of a column."""
    cells = (row.get(name) for row in rows)
    return [text for cell in cells for text in (cell if isinstance(cell, list) else [cell]) if isinstance(text, str)]


def _known(name: str) -> str:
    return re.sub(r"[\s-]+", "_", name.strip().lower())


def _is_picture(text: str) -> bool:
    return not _is_address(text) and PurePath(text.strip()).suffix.lower().lstrip(".") in ENDINGS


def _is_address(text: str) -> bool:
    return text.strip().lower().startswith(("http://", "https://"))


def _share(answers: Any) -> float:
    return _mean([float(answer) for answer in answers])


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def _shown(text: str) -> str:
    return printable(text)[:60]


def _listed(header: Sequence[str]) -> str:
    return ", ".join(f'"{_shown(name)}"' for name in header[:20])
