"""Pictures in a folder, however deep, with their captions beside them or without any.

    photos/a.jpg    photos/a.txt     captions, one a line, as img2dataset writes them with output_format=files

Where no picture has a text beside it, no record has captions: enough to embed them, and to classify them, but not to
train on. Where some have one, a picture without is left out.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from equipoise.data.bad_records import Fault
from equipoise.data.files.captions import LONGEST, BadText, has_surrogates, read_captions
from equipoise.data.files.file_source import FileSettings
from equipoise.data.files.image_folder import is_picture, read_picture
from equipoise.data.files.paths import find_files
from equipoise.data.files.records import side_files_of
from equipoise.data.source import Pair
from equipoise.types import UserError

TEXT = ".txt"


@dataclass(frozen=True)
class PictureFolder(FileSettings):
    def records(self, patterns: tuple[str, ...]) -> PictureRecords:
        files: list[tuple[Path, str]] = []
        for pattern in patterns:
            root = Path(self.root) / pattern
            if root.is_dir():
                files += [(path, path.relative_to(root).as_posix()) for path in pictures_in(root)]
            else:
                files += [(path, path.name) for path in find_files(pattern, self.root) if is_picture(path.name)]
        if not files:
            raise UserError(f"{', '.join(patterns)}: there are no pictures in it; check the path")
        return PictureRecords(files)


def pictures_in(folder: Path) -> Iterator[Path]:
    """All pictures in a folder and those within it, in order."""
    for parent, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield from (Path(parent) / name for name in sorted(names) if is_picture(name))


def has_text(picture: Path) -> bool:
    return picture.with_suffix(TEXT).is_file()


class PictureRecords:
    """Picture files, each with its key. `captioned` is whether texts beside them are read; where it is not given they
    are if there are any."""

    def __init__(self, files: list[tuple[Path, str]], captioned: bool | None = None):
        self.faults: list[Fault] = []
        self.files: list[tuple[Path, str, tuple[str, ...]]] = []
        if captioned is None:
            captioned = any(has_text(path) for path, _ in files)
        for path, key in files:
            try:
                if has_surrogates(key):
                    raise BadText("its name is not UTF-8 text")
                self.files.append((path, key, _captions(path) if captioned else ()))
            except BadText as error:
                self.faults.append(Fault(str(path), str(error)))

    def __len__(self) -> int:
        return len(self.files)

    def key(self, index: int) -> str:
        return self.files[index][1]

    def place(self, index: int) -> str:
        return str(self.files[index][0])

    def pair(self, index: int) -> Pair:
        _, key, captions = self.files[index]
        return Pair(key, captions)

    def image(self, index: int) -> bytes:
        return read_picture(self.files[index][0], self.place(index))

    def read(self, index: int) -> tuple[Pair, bytes]:
        return self.pair(index), self.image(index)

    def side_files(self, index: int) -> Mapping[str, bytes]:
        return side_files_of(self.pair(index))


def _captions(picture: Path) -> tuple[str, ...]:
    """The captions beside a picture. Raises BadText."""
    path = picture.with_suffix(TEXT)
    try:
        with path.open("rb") as file:
            return tuple(read_captions(file.read(LONGEST + 1)))
    except OSError as error:
        raise BadText(f"there is no {TEXT} beside the image ({error.strerror})") from None
