"""Class folders and class shards as a `ClassSet`.

ROOT/CLASS/picture.jpg     folders are called by wnids, by numbers, by the classes' names, or, where they are as many
                           as the classes and none of these, stand for them in the order of their names
ROOT/test/0.tar ...        CLIP_benchmark's layout: KEY.jpg (png, webp), KEY.cls; classnames.txt and
                           zeroshot_classification_templates.txt (or templates.txt) in ROOT, or beside the shards
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from equipoise.data.benchmark_sets.class_set import ClassSet, class_set, listed_set
from equipoise.data.benchmark_sets.class_words import WNID, ClassWords
from equipoise.data.files.classes import DEFAULT_TEMPLATES, checked_names, checked_templates, read_lines
from equipoise.data.files.image_folder import is_picture
from equipoise.data.files.webdataset import open_shards
from equipoise.data.files.webdataset_classes import NAMES, TEMPLATES, ClassRecords, class_of
from equipoise.types import UserError

THEIR_TEMPLATES = "zeroshot_classification_templates.txt"
SPLITS = ("test", "val", "validation")


def find_shards(folder: Path) -> list[Path]:
    """The shards of a class set in a folder or in the split in it; none where there are none."""
    for place in (*(folder / split for split in SPLITS), folder):
        found = sorted(place.glob("*.tar"), key=lambda path: (len(path.stem), path.stem))
        if found and any((near / NAMES).is_file() for near in (place, folder)):
            return found
    return []


def read_class_shards(shards: Sequence[Path], words: ClassWords | None) -> ClassSet:
    """Shards with the words beside them; classes of one name are refused unless they are those of `words`."""
    near = (shards[0].parent, shards[0].parent.parent)
    names_file = next(place / NAMES for place in near if (place / NAMES).is_file())
    names = read_lines(names_file, "class names")
    if words is None or names != words.names:
        names = checked_names(names, str(names_file))
    candidates = [place / name for place in near for name in (THEIR_TEMPLATES, TEMPLATES)]
    templates_file = next((file for file in candidates if file.is_file()), None)
    if templates_file is not None:
        templates = checked_templates(read_lines(templates_file, "templates"), str(templates_file))
    else:
        templates = words.templates if words else DEFAULT_TEMPLATES
    check = partial(_has_class, classes=len(names))
    records = ClassRecords(open_shards(shards, check, "", ""), names, templates)
    if records.faults:
        raise UserError(f"{records.faults[0]}; a benchmark needs every record")
    labels = [class_of(records.text_files(index), len(names)) for index in range(len(records))]
    return class_set(records, labels, names, templates, str(shards[0].parent))


def _has_class(files: Mapping[str, bytes], classes: int) -> None:
    class_of(files, classes)


def read_class_folders(root: Path, words: ClassWords | None) -> ClassSet:
    """A folder of class folders, or the split in it; without `words` the folders' names are the classes'."""
    place = next((root / split for split in SPLITS if (root / split).is_dir()), root)
    if not place.is_dir():
        raise UserError(f"{place}: there is no such folder; give one that holds a folder for each class")
    # by name, not by path, which some systems compare without capitals: Caltech-101's order has them first
    folders = sorted(_folders_in(place), key=lambda folder: folder.name)
    if not folders:
        raise UserError(f"{place}: there are no folders in it; give one that holds a folder for each class")
    names: tuple[str, ...]
    templates: tuple[str, ...]
    if words is None:
        names = checked_names(tuple(spoken(folder.name) for folder in folders), str(place))
        numbers, templates = list(range(len(folders))), DEFAULT_TEMPLATES
    else:
        names, templates = words.names, words.templates
        numbers = class_numbers([folder.name for folder in folders], words, place)
    files = [
        (picture, number)
        for folder, number in zip(folders, numbers, strict=True)
        for picture in sorted(folder.iterdir())
        if is_picture(picture.name)
    ]
    return listed_set(files, names, templates, str(place))


def _folders_in(place: Path) -> list[Path]:
    return [one for one in place.iterdir() if one.is_dir() and not one.name.startswith(".")]


def class_numbers(folders: Sequence[str], words: ClassWords, place: Path) -> list[int]:
    """The number of the class that each folder stands for; raises UserError for one that stands for none."""
    known, what = _naming(folders, words)
    if known is None:
        if len(folders) == len(words.names):
            return list(range(len(folders)))
        strange = _unknown(folders, words)
        raise UserError(
            f'{place}: the folder "{strange}" is none of the {len(words.names):,} classes; call folders by {what}, or '
            "give all of them"
        )
    numbers = [known[_plain(folder)] for folder in folders]
    twice = next((number for number in numbers if numbers.count(number) > 1), None)
    if twice is not None:
        raise UserError(f'{place}: two folders are the class "{words.names[twice]}"; make them one')
    return numbers


def _naming(folders: Sequence[str], words: ClassWords) -> tuple[dict[str, int] | None, str]:
    """The naming by which every folder is a class; None where there is none."""
    by_wnid = {wnid: number for number, wnid in enumerate(words.wnids)}
    by_number = {str(number): number for number in range(len(words.names))}
    by_name = {_plain(name): number for number, name in enumerate(words.names)}
    what = f"their names, such as {words.names[0]}{', or by wnids' if words.wnids else ''}"
    for known in (by_wnid, by_number, by_name):
        if all(_plain(folder) in known for folder in folders):
            return known, what
    return None, what


def _unknown(folders: Sequence[str], words: ClassWords) -> str:
    known = {*words.wnids, *map(_plain, words.names)}
    return next((folder for folder in folders if _plain(folder) not in known), folders[0])


def spoken(folder: str) -> str:
    """A folder's name as a class's."""
    return " ".join(folder.replace("_", " ").split()) or folder


def _plain(name: str) -> str:
    """A name as it is compared: `Golden_Retriever` is `golden retriever`, 007 is 7."""
    if WNID.fullmatch(name):
        return name
    text = " ".join(re.sub(r"[\W_]+", " ", name.casefold()).split())
    return str(int(text)) if text.isascii() and text.isdigit() and len(text) < 9 else text
