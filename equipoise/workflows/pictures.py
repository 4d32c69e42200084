"""Pictures by the names of their files, beside the kinds of data that `subject.py` knows: what `zeroshot` looks at.

a.jpg b.png        files
'photos/*.jpg'     a pattern
photos             a folder of pictures, with those in folders within; one of class folders alone is data, as shards,
                   tables and recipes are
"""

from __future__ import annotations

import glob
import warnings
from collections.abc import Sequence
from pathlib import Path

from equipoise.data.files.image_folder import is_picture
from equipoise.data.files.image_source import Pictures, decodable
from equipoise.data.files.picture_folder import PictureRecords, pictures_in
from equipoise.data.source import Source
from equipoise.settings.nearby import meant_path
from equipoise.types import UserError
from equipoise.workflows.subject import find_source


def find_pictures(names: Sequence[str], overrides: Sequence[str] = (), split: str = "test") -> list[Source]:
    """Sources of the pictures that words name, in their order; single files that follow each other are one source."""
    sources: list[Source] = []
    files: list[Path] = []
    for name in names:
        if (found := _files(name)) is not None:
            files += found
            continue
        if files:
            sources.append(_source(files))
            files = []
        sources.append(find_source(name, overrides, split)[0])
    return [*sources, _source(files)] if files else sources


def _files(name: str) -> list[Path] | None:
    """The pictures that a word names by their files; None where it names data of another kind."""
    path = Path(name)
    if path.is_dir():
        inside = list(path.iterdir())
        if not inside:
            raise UserError(f"{path}: there is nothing in this folder; check the path")
        return list(pictures_in(path)) if any(is_picture(file.name) for file in inside) else None
    if not is_picture(path.name):
        return None
    found = [path] if path.exists() else sorted(map(Path, glob.glob(name)))
    if not found:
        raise UserError(f"{path}: there is no such picture{meant_path(path)}; check the path")
    return found


def _source(files: Sequence[Path]) -> Pictures:
    records = decodable(PictureRecords([(file, str(file)) for file in files], captioned=False))
    for fault in records.faults:
        warnings.warn(f"left out {fault}", stacklevel=2)
    if not len(records):
        raise UserError(f"none of the {len(files):,} pictures can be read, the first for this: {records.faults[0]}")
    return Pictures(records)
