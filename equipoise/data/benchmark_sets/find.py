"""A benchmark set found below ROOT and read, in whichever layout it lies there."""

from __future__ import annotations

from pathlib import Path

from equipoise.data.benchmark_sets.caption_set import CaptionSet, read_caption_set
from equipoise.data.benchmark_sets.class_folders import find_shards, read_class_folders, read_class_shards
from equipoise.data.benchmark_sets.class_set import ClassSet
from equipoise.data.benchmark_sets.class_words import ClassWords, class_words, known_words
from equipoise.data.benchmark_sets.instance_set import InstanceSet, read_copydays, read_revisited
from equipoise.data.benchmark_sets.set_spec import COPIES, INSTANCES, RETRIEVAL, SetSpec
from equipoise.data.benchmark_sets.torchvision_layouts import TORCHVISION
from equipoise.types import UserError

Found = CaptionSet | ClassSet | InstanceSet


def find_place(name: str, spec: SetSpec, root: Path) -> Path | None:
    """Where a set lies; None where it does not."""
    for folder in spec.folders:
        if (root / folder).exists():
            return root / folder
    layouts = TORCHVISION.get(name, ())
    return next((root / one.folder for one in layouts if (root / one.folder / one.needs).exists()), None)


def missing(name: str, spec: SetSpec, root: Path) -> str:
    """The sentence that says where a set must lie and what it needs."""
    return f"{name} is not in {root}: put {spec.needs or 'it'} into {root / spec.folders[0]}"


def read_set(name: str, spec: SetSpec, root: Path) -> Found:
    """The set; raises UserError where it is not there, or not whole."""
    place = find_place(name, spec, root)
    if place is None:
        fetch = f", or fetch it with --download (hub: {spec.hub})" if spec.hub else ""
        raise UserError(missing(name, spec, root) + fetch)
    if spec.task == RETRIEVAL:
        return _captions(spec, place, root)
    if spec.task == INSTANCES:
        return read_revisited(place)
    return read_copydays(place) if spec.task == COPIES else _classes(name, spec, place, root)


def _captions(spec: SetSpec, place: Path, root: Path) -> CaptionSet:
    """Captions with those files of judgements that are there: of a set of one's own, all that it names must be."""
    judged: dict[str, dict[str, Path]] = {"relevance": {}, "grades": {}}
    for kind, files in (("relevance", spec.relevance), ("grades", spec.grades)):
        for name, file in files.items():
            near = next((one for one in (place / file, root / file) if one.is_file()), None)
            if near is not None:
                judged[kind][name] = near
            elif not spec.hub:
                raise UserError(f"{root / file}: there is no such file of {kind}; check its path in the suite")
    found = read_caption_set(place, **judged)
    if not spec.annotations:
        return found
    return CaptionSet(found.source, root / spec.annotations, found.relevance, found.grades)


def _classes(name: str, spec: SetSpec, place: Path, root: Path) -> ClassSet:
    words = _words(spec)
    if place.is_file() and place.suffix == ".tar":
        return read_class_shards([place], words)
    if shards := find_shards(place):
        return read_class_shards(shards, words)
    for layout in TORCHVISION.get(name, ()):
        for folder in (place / layout.folder, root / layout.folder, place):
            if words and (folder / layout.needs).exists():
                return layout.read(folder, words)
    return read_class_folders(place, words)


def _words(spec: SetSpec) -> ClassWords | None:
    if not spec.classes:
        return None
    try:
        return class_words(spec.classes)
    except KeyError:
        raise UserError(
            f'the words of the classes of "{spec.classes}" are not known; choose one of {", ".join(known_words())}'
        ) from None
