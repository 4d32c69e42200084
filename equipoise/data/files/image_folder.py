"""Pictures in one folder per class: `ROOT/CLASS/picture.jpg`, as ImageNet is kept. A split is a folder of such folders.

The label is the name of the folder, underscores read as spaces, or what the file `class_names` has beside that name, a
line a folder: "n01440764 tench" (divided by a tab where a folder's name has spaces). Captions are the templates filled
with the label.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from equipoise.data.bad_records import BadRecord, Fault, printable
from equipoise.data.files.captions import has_surrogates
from equipoise.data.files.classes import DEFAULT_TEMPLATES, checked_names, checked_templates, filled, read_lines
from equipoise.data.files.file_source import FileSettings
from equipoise.data.files.image_source import LabelledPictures
from equipoise.data.files.records import IMAGES, LARGEST, Records, side_files_of
from equipoise.data.source import Pair
from equipoise.types import UserError


@dataclass(frozen=True)
class Folders(FileSettings):
    names_classes: ClassVar[bool] = True
    templates: tuple[str, ...] = DEFAULT_TEMPLATES  # captions, with {} for the class's name
    class_names: str = ""  # a file with a folder and its class's name a line, such as: n01440764 tench

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.templates:
            raise UserError('templates is empty; give at least one, such as "a photo of a {}."')
        checked_templates(self.templates, "templates")

    def records(self, patterns: tuple[str, ...]) -> FolderRecords:
        templates = checked_templates(self.templates, "templates")
        return FolderRecords(self._roots(patterns), templates, self._names())

    def source(self, records: Records, patterns: tuple[str, ...]) -> LabelledPictures:
        every = self.records(patterns)
        return LabelledPictures(records, self.max_bad, every.names, every.templates)

    def _names(self) -> ClassNames | None:
        return ClassNames(Path(self.root) / self.class_names) if self.class_names else None

    def _roots(self, patterns: tuple[str, ...]) -> list[Path]:
        roots = [Path(self.root) / pattern for pattern in patterns]
        for root in roots:
            if not root.is_dir():
                raise UserError(f"{root}: there is no such folder; give one that holds a folder for each class")
        return roots


class ClassNames:
    """The name of the class of each folder, as a file has them."""

    def __init__(self, path: Path):
        self.path = path
        parts = [line.split("\t" if "\t" in line else None, 1) for line in read_lines(path, "names of classes")]
        if wrong := next((part for part in parts if len(part) < 2), None):
            raise UserError(f'{path}: the line "{wrong[0]}" has no name; write a folder and its class, n01440764 tench')
        self.by_folder = {folder.strip(): name.strip() for folder, name in parts}

    def __call__(self, folder: str) -> str:
        if folder not in self.by_folder:
            raise UserError(f'{self.path}: there is no line for the folder "{folder}"; add one with its class\'s name')
        return self.by_folder[folder]


class FolderRecords:
    def __init__(self, roots: list[Path], templates: tuple[str, ...], names: ClassNames | None = None):
        self.templates = templates
        named: Callable[[str], str] = names or _spoken
        self.faults: list[Fault] = []
        folders = [folder for root in roots for folder in sorted(root.iterdir()) if _is_class(folder)]
        if not folders:
            raise UserError(f"{roots[0]}: there are no folders in it; give one that holds a folder for each class")
        # the same class may be under several roots
        labels = tuple(dict.fromkeys(folder.name for folder in folders if not has_surrogates(folder.name)))
        self.names = checked_names(tuple(named(label) for label in labels), str(roots[0]))
        self.files: list[tuple[Path, str]] = []
        for path in (folder / name for folder in folders for name in sorted(os.listdir(folder)) if is_picture(name)):
            if has_surrogates(f"{path.parent.name}/{path.name}"):
                self.faults.append(Fault(str(path), "its name, or that of its class, is not UTF-8 text"))
            else:
                self.files.append((path, named(path.parent.name)))

    def __len__(self) -> int:
        return len(self.files)

    def key(self, index: int) -> str:
        path, _ = self.files[index]
        return f"{path.parent.name}/{path.name}"

    def place(self, index: int) -> str:
        return str(self.files[index][0])

    def pair(self, index: int) -> Pair:
        name = self.files[index][1]
        return Pair(self.key(index), filled(self.templates, name), label=name)

    def image(self, index: int) -> bytes:
        return read_picture(self.files[index][0], self.place(index))

    def read(self, index: int) -> tuple[Pair, bytes]:
        return self.pair(index), self.image(index)

    def side_files(self, index: int) -> Mapping[str, bytes]:
        return side_files_of(self.pair(index))


def read_picture(path: Path, place: str) -> bytes:
    """The bytes of a picture's own file. Raises BadRecord, also for a name that no file can have."""
    try:
        if path.exists() and not path.is_file():  # a pipe or a device might never end
            raise OSError("it is not a file")
        if (size := path.stat().st_size) > LARGEST:
            raise OSError(f"it has {size:,} bytes, and {LARGEST:,} are the most that are read")
        return path.read_bytes()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise BadRecord(place, f"the image {printable(str(path))} cannot be read ({reason})") from None


def _is_class(folder: Path) -> bool:
    return folder.is_dir() and not folder.name.startswith(".")


def is_picture(name: str) -> bool:
    return name.rpartition(".")[2].lower() in IMAGES and not name.startswith(".")


def _spoken(folder: str) -> str:
    return " ".join(folder.replace("_", " ").split()) or folder
