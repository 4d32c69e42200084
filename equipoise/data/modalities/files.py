"""The source `modalities`: samples of any number of named modalities, read from npz, safetensors and Parquet files.

Files of one split with the same modalities lie below each other; files with different ones (`audio.npz`, `video.npz`)
are joined by the ids of their samples. `modal_file.py` says what a file may hold.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from equipoise.data.features.arrays import READERS
from equipoise.data.modalities.history import group_of, with_history
from equipoise.data.modalities.modal_file import SPLIT, ModalFile, read_modal_file, split_name, splits_of
from equipoise.data.modalities.modality import Modality, concatenated, spread_over
from equipoise.data.modalities.samples import Labels, ModalSamples
from equipoise.data.rng import keyed_int
from equipoise.data.splits import SPLITS, require_split
from equipoise.settings.bounds import bounded
from equipoise.types import UserError

LABELS = ("auto", "class", "number")
MOST_CLASSES = 100_000


@dataclass(frozen=True)
class ModalFiles:
    root: str | tuple[str, ...] = ""  # files, or folders of them, that say themselves which samples are of which split
    train: str | tuple[str, ...] = ""  # or files of one split each
    validation: str | tuple[str, ...] = ""  # likewise
    test: str | tuple[str, ...] = ""  # likewise
    modalities: tuple[str, ...] = ()  # the arrays that are modalities; none: all floating-point arrays [N, ...]
    id: str = "id"  # the arrays' names
    label: str = "label"  # likewise
    labels: str = "auto"  # class, number, or auto: floating-point labels are numbers, others classes
    incomplete: bool = False  # samples whose id is not in all files lack a modality, and raise no UserError
    validation_share: float = bounded(0.1, 0, 0.9)  # of the training samples, where nothing else is for validation
    grouped: bool = False  # hold out whole groups: ids GROUP_NUMBER, such as utterances of a video
    history: int = bounded(0, 0, 1000)  # samples of the same group before each that it is read with, as a sequence

    def __post_init__(self) -> None:
        if self.labels not in LABELS:
            raise UserError(f"data.labels must be one of {', '.join(LABELS)}, not {self.labels!r}")
        if self.root and self.train:
            raise UserError("data.root names files of all splits and data.train those of one; give one of them")

    def build(self, split: str) -> ModalSamples:
        require_split(split)
        files, held_out = self._files(split)
        found = self._joined(files)
        rows = self._rows(found, split) if held_out else list(range(len(found)))
        if not rows:
            raise UserError(f"{files[0].path}: no sample is left for the split {split}; change data.validation_share")
        chosen = torch.tensor(rows)
        parts = {name: spread_over(part, rows) for name, part in found.parts.items()}
        ids = found.ids or [f"{found.path.stem}-{row}" for row in range(len(found))]
        labels = self._labels(found)
        kept = Labels(labels.values[chosen], labels.classes) if labels else None
        if kept and split == "train":
            _require_several(kept, found.path)
        keys = [ids[row] for row in rows]
        _require_something(parts, keys, found.path)
        if self.history:
            parts = with_history(keys, parts, self.history, str(files[0].path))
        return ModalSamples(keys, parts, kept, str(files[0].path))

    def _files(self, split: str) -> tuple[list[ModalFile], bool]:
        """The files of a split, and whether a part of the training samples is held out for validation."""
        if not (self.root or self.train):
            raise UserError(
                "data.root is empty; give it the file of the modalities, or data.train and data.test theirs"
            )
        given = self._given(split)
        if split == "test" and not given:
            warnings.warn("no samples are for the test: those for validation are the test samples too", stacklevel=3)
            split, given = "validation", self._given("validation")
        held_out = split != "test" and self.validation_share > 0 and not self._given("validation")
        if split == "validation" and held_out:
            given = self._given("train")
        if not given:
            place = self.root or f"data.{split}"
            raise UserError(
                f"no samples are for {split} in {place}: a file says which by its name ({split}.npz), by an array "
                f"{SPLIT!r}, or by the names of its arrays ({split}_...); give some, or raise data.validation_share"
            )
        return [self._read(path, part) for path, part in given], held_out

    def _given(self, split: str) -> list[tuple[Path, str]]:
        """Files with samples of a split, each with the split to look for in it where it has several."""
        if not self.root:
            return [(path, "") for path in _paths(getattr(self, split))] if getattr(self, split) else []
        paths = _paths(self.root)
        named = [path for path in paths if split_name(path.stem) in SPLITS]
        alone = [(path, "") for path in named if split_name(path.stem) == split]
        return [*alone, *((path, split) for path in paths if path not in named and split in splits_of(path))]

    def _read(self, path: Path, split: str) -> ModalFile:
        return read_modal_file(path, self.modalities, self.id, self.label, split)

    def _joined(self, files: Sequence[ModalFile]) -> ModalFile:
        """All files as one."""
        groups: dict[frozenset[str], list[ModalFile]] = {}
        for file in files:
            groups.setdefault(frozenset(file.parts), []).append(file)
        whole = join_by_ids([_below_each_other(group) for group in groups.values()], self.incomplete)
        for name in self.modalities:
            if name not in whole.parts:
                raise UserError(f"{whole.path}: there is no array {name!r}, which data.modalities names; correct one")
        if self.modalities:  # in the order in which they are named
            return ModalFile(
                whole.path, whole.ids, {n: whole.parts[n] for n in self.modalities}, whole.labels, whole.numbers
            )
        return whole

    def _rows(self, found: ModalFile, split: str) -> list[int]:
        """Rows of training or of validation, by a draw that an id decides alone."""
        if found.ids is None and self.grouped:
            raise UserError(f"{found.path}: data.grouped needs ids, but there is no array {self.id!r}; add it")
        ids = found.ids or [str(row) for row in range(len(found))]
        units = [group_of(one) if self.grouped else one for one in ids]
        held = [keyed_int(f"validation {unit}") < self.validation_share * 2**64 for unit in units]
        return [row for row, out in enumerate(held) if out == (split == "validation")]

    def _labels(self, found: ModalFile) -> Labels | None:
        if found.labels is None:
            return None
        if self.labels == "number" or (self.labels == "auto" and found.numbers):
            return _numbers(found)
        return _classes(found, self._class_names())

    def _class_names(self) -> tuple[str, ...]:
        """Names of all classes, those of the training files: whole numbers from 0, or words."""
        files = self._files("train")[0]
        labels = [one for file in files for one in file.labels or ()]
        if not labels or not all(isinstance(one, int | float) for one in labels):
            return tuple(sorted(set(map(str, labels))))
        most = max(labels)
        if not 0 <= most < MOST_CLASSES:
            raise UserError(
                f"{files[0].path}: classes are numbered from 0 to at most {MOST_CLASSES - 1}, but one is {most}"
            )
        return tuple(str(number) for number in range(max(2, 1 + int(most))))


def join_by_ids(files: Sequence[ModalFile], incomplete: bool) -> ModalFile:
    """Files of different modalities as one, sample by sample."""
    if len(files) == 1:
        return files[0]
    tables = []
    for file in files:
        if file.ids is None:
            raise UserError(
                f"{file.path} and {files[0].path} hold different modalities, joined by ids, but it has none"
            )
        tables.append({one: row for row, one in enumerate(file.ids)})
    ids = list(dict.fromkeys(one for table in tables for one in table))
    for file, table in zip(files, tables, strict=True):
        if not set(table) & set(tables[0]):
            raise UserError(f"{file.path}: none of its ids is in {files[0].path}, so they do not join; check both")
    for file, table in zip(files, tables, strict=True):
        lacking = [one for one in ids if one not in table]
        if lacking and not incomplete:
            raise UserError(
                f"{file.path}: {len(lacking)} of {len(ids)} ids are not in it (the first is {lacking[0]!r}); leave "
                "those samples out, or set data.incomplete to true, and they lack what it holds"
            )
    parts = {
        name: spread_over(part, [table.get(one, -1) for one in ids])
        for file, table in zip(files, tables, strict=True)
        for name, part in file.parts.items()
    }
    labelled = [file for file in files if file.labels is not None]
    if not labelled:
        return ModalFile(files[0].path, ids, parts, None)
    labels = _joined_labels(labelled)
    if len(labels) < len(ids):
        raise UserError(f"{labelled[0].path} has labels of {len(labels)} of {len(ids)} samples; give all of them one")
    numbers = all(file.numbers for file in labelled)
    return ModalFile(labelled[0].path, ids, parts, [labels[one] for one in ids], numbers)


def _joined_labels(files: Sequence[ModalFile]) -> dict[str, Any]:
    """Labels by id, out of any file that has them; raises UserError where two files say different ones."""
    labels: dict[str, Any] = {}
    for file in files:
        for one, label in zip(file.ids or (), file.labels or (), strict=True):
            if one in labels and labels[one] != label:
                raise UserError(
                    f"{file.path}: the label of {one!r} is {label}, but {labels[one]} in a file beside it; correct one"
                )
            labels[one] = label
    return labels


def _below_each_other(files: Sequence[ModalFile]) -> ModalFile:
    first = files[0]
    for file in files[1:]:
        for name, part in file.parts.items():
            if part.values.shape[2:] != first.parts[name].values.shape[2:] or part.width != first.parts[name].width:
                raise UserError(f"{file.path}: array {name!r} has another kind or width than that of {first.path}")
        if (file.ids is None) != (first.ids is None) or (file.labels is None) != (first.labels is None):
            raise UserError(f"{file.path} and {first.path}: only one of them has ids or labels; give both or none")
    ids = [one for file in files for one in file.ids or ()] or None
    if ids and len(set(ids)) < len(ids):
        raise UserError(f"{first.path} and the files beside it hold samples of the same id; give every sample its own")
    labels = [one for file in files for one in file.labels or ()] or None
    parts = {name: concatenated([file.parts[name] for file in files]) for name in first.parts}
    return ModalFile(first.path, ids, parts, labels, all(file.numbers for file in files))


def _numbers(found: ModalFile) -> Labels:
    try:
        values = torch.tensor([float(one) for one in found.labels or ()])
    except ValueError as error:
        raise UserError(f"{found.path}: a label is no number ({error}); set data.labels to class") from None
    if not bool(values.isfinite().all()):
        row = int((~values.isfinite()).long().argmax())
        raise UserError(f"{found.path}: the label of row {row} is not finite; correct it or leave the sample out")
    return Labels(values)


def _classes(found: ModalFile, names: tuple[str, ...]) -> Labels:
    numbers = {name: number for number, name in enumerate(names)}
    found_labels = [
        str(int(one)) if isinstance(one, float) and one.is_integer() else str(one) for one in found.labels or ()
    ]
    for row, one in enumerate(found_labels):
        if one not in numbers:
            raise UserError(
                f"{found.path}: the label {one!r} of row {row} is no class; number classes from 0, or use words that "
                "training samples have too"
            )
    return Labels(torch.tensor([numbers[one] for one in found_labels]), names)


def _require_something(parts: Mapping[str, Modality], keys: Sequence[str], path: Path) -> None:
    nothing = ~torch.stack([part.has for part in parts.values()]).any(0)
    if bool(nothing.any()):
        raise UserError(
            f"{path}: the sample {keys[int(nothing.long().argmax())]!r} has none of {', '.join(parts)}; leave it out"
        )


def _require_several(labels: Labels, path: Path) -> None:
    if len(labels.values.unique()) < 2:
        raise UserError(
            f"{path}: all training samples have the label {labels.told(0)}, so there is nothing to tell apart; give "
            "two or more, or leave the labels out"
        )


def _paths(given: str | tuple[str, ...]) -> list[Path]:
    found = []
    for path in map(Path, [given] if isinstance(given, str) else given):
        if not path.is_dir():
            found.append(path)
            continue
        files = sorted(file for file in path.iterdir() if file.suffix in READERS and not file.name.startswith("."))
        if not files:
            raise UserError(f"{path}: this folder holds no {', '.join(READERS)} file; give one that does")
        found += files
    return found
