"""One file of modalities, understood and checked.

    NAME [N, w] or [N, L, w]   any number of floating-point arrays, each a modality
    NAME_mask [N, L]           which steps are real (or NAME_lengths [N]); all are where it is missing
    has_NAME [N]               which samples have it; all have where it is missing
    id [N], label [N], split [N]

A file of several splits either has `split`, or begins the names of its arrays with `train_`, `validation_` and `test_`.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from equipoise.data.features.arrays import Arrays, array_names, read_arrays
from equipoise.data.features.feature_file import not_finite_rows
from equipoise.data.modalities.modality import Modality
from equipoise.data.splits import SPLITS
from equipoise.types import JOINT, UserError

SPLIT = "split"
OTHER_NAMES = {"valid": "validation", "val": "validation", "dev": "validation"}
ENDINGS, HAS = ("_mask", "_lengths"), "has_"


@dataclass(frozen=True)
class ModalFile:
    path: Path
    ids: list[str] | None
    parts: dict[str, Modality]
    labels: list[Any] | None  # numbers or words, one per sample
    numbers: bool = False  # whether labels came as floating-point numbers

    def __len__(self) -> int:
        return len(next(iter(self.parts.values())))


def splits_of(path: Path) -> set[str]:
    """Splits that a file of several names; none where it does not."""
    names = array_names(path)
    if SPLIT in names:
        counts = Counter(split_name(word) for word in _listed(read_arrays(path, [SPLIT]), SPLIT))
        for word in sorted(set(counts) - set(SPLITS)):
            warnings.warn(
                f"{path}: {counts[word]:,} samples are of the split {word!r}, which is none of {', '.join(SPLITS)}: "
                "they are left out",
                stacklevel=2,
            )
        return set(counts)
    return {split_name(name.partition("_")[0]) for name in names} & set(SPLITS)


def split_name(word: object) -> str:
    return OTHER_NAMES.get(str(word), str(word))


def read_modal_file(path: Path, wanted: Sequence[str], ids: str, label: str, split: str = "") -> ModalFile:
    """The modalities of a file, all or those `wanted`; with `split`, its samples of that split."""
    there = array_names(path)
    by_name = bool(split) and SPLIT not in there
    plain = {name: name.partition("_")[2] if by_name else name for name in there}
    of_split = [name for name in there if not by_name or split_name(name.partition("_")[0]) == split]
    if not of_split:
        raise UserError(
            f"{path}: no array says which samples are of the split {split} (found {', '.join(there)}); add an array "
            f"{SPLIT!r}, call them {split}_..., or give data.{split} a file of its own"
        )
    read = {*_beside(wanted), ids, label, SPLIT}
    arrays = read_arrays(path, [name for name in of_split if not wanted or plain[name] in read])
    if by_name:
        tensors = {plain[name]: one for name, one in arrays.tensors.items()}
        arrays = Arrays(path, tensors, {plain[name]: one for name, one in arrays.words.items()}, split)
    elif split:
        arrays = _of_split(arrays, split, (ids, label))
    names = [name for name in wanted if name in arrays.tensors] or ([] if wanted else _modalities(arrays, label))
    if not names:
        found = ", ".join(there) or "nothing"
        raise UserError(f"{arrays.place}: none of {', '.join(wanted) or 'its arrays'} is a modality (found {found})")
    count = len(arrays.tensors[names[0]])
    parts = {name: _modality(arrays, name, count) for name in names}
    labels = _listed(arrays, label)[:] if label in arrays.names() else None
    numbers = label in arrays.tensors and arrays.tensors[label].is_floating_point()
    keys = [str(one) for one in _listed(arrays, ids)] if ids in arrays.names() else None
    for what, values in ((ids, keys), (label, labels)):
        if values is not None and len(values) != count:
            raise UserError(
                f"{arrays.place}: {what!r} has {len(values)} entries for {count} samples; give one a sample"
            )
    if keys is not None and len(set(keys)) < len(keys):
        twice = next(key for place, key in enumerate(keys) if key in keys[:place])
        raise UserError(f"{arrays.place}: the id {twice!r} comes more than once in {ids!r}; give every sample its own")
    return ModalFile(path, keys, parts, labels, numbers)


def _beside(names: Sequence[str]) -> list[str]:
    """The arrays that modalities may have, so that no other is read where it is known which are wanted."""
    return [one for name in names for one in (name, f"{HAS}{name}", *(f"{name}{ending}" for ending in ENDINGS))]


def _of_split(arrays: Arrays, split: str, needed: Sequence[str]) -> Arrays:
    """The rows of one split; what has no row per sample is no part of them."""
    words_of_split = _listed(arrays, SPLIT)
    rows = [row for row, word in enumerate(words_of_split) if split_name(word) == split]
    places, count = torch.tensor(rows, dtype=torch.long), len(words_of_split)
    sizes = {name: len(one) if one.ndim else 0 for name, one in arrays.tensors.items()}
    sizes |= {name: len(one) for name, one in arrays.words.items()}
    for name, size in sizes.items():
        if size != count and (name in needed or name in _modalities(arrays, "")):
            raise UserError(
                f"{arrays.path}: {name!r} has {size} rows and {SPLIT!r} {count}; give each sample one of each"
            )
    tensors = {name: one[places] for name, one in arrays.tensors.items() if sizes[name] == count}
    words = {name: [one[row] for row in rows] for name, one in arrays.words.items() if sizes[name] == count}
    return Arrays(arrays.path, tensors, words, split)


def _modalities(arrays: Arrays, label: str) -> list[str]:
    """Names of the arrays that are modalities, where nobody says."""
    sides = {f"{name}{ending}" for name in arrays.tensors for ending in ENDINGS}
    return [
        name
        for name, tensor in sorted(arrays.tensors.items())
        if tensor.is_floating_point() and tensor.ndim in (2, 3) and name not in sides | {label, JOINT}
    ]


def _modality(arrays: Arrays, name: str, count: int) -> Modality:
    values, where = arrays.tensors[name], f"{arrays.place}: array {name!r}"
    if values.ndim not in (2, 3) or not values.numel():
        raise UserError(f"{where} has the shape {list(values.shape)}; give [N, w] or [N, L, w], at least 1 of each")
    if not values.is_floating_point():
        raise UserError(f"{where} holds {values.dtype} numbers; a modality's are floating-point")
    if len(values) != count:
        raise UserError(f"{where} has {len(values)} rows, but another has {count}; give each sample one of each")
    has = _has(arrays, name, count)
    mask = _mask(arrays, name, values, has) if values.ndim == 3 else None
    seen = has[:, None] if mask is None else mask & has[:, None]
    for row in not_finite_rows(values if mask is not None else values[:, None], seen):
        raise UserError(
            f"{where} has a number that is not finite in row {row}; put another there, or say in {HAS}{name} that "
            "this sample lacks it"
        )
    if int(has.sum()) > 1:  # a single sample, as one may be searched for, has nothing to differ from
        _require_varied(values[seen if mask is not None else has], where)
    return Modality(values, mask, has)


def _require_varied(real: Tensor, where: str) -> None:
    """Raise UserError for a modality that is the same everywhere."""
    if bool((real == real[:1]).all()):
        raise UserError(f"{where} is the same in every sample, so it tells nothing; write it again, or leave it out")


def _has(arrays: Arrays, name: str, count: int) -> Tensor:
    given = arrays.tensors.get(f"{HAS}{name}")
    if given is None:
        return torch.ones(count, dtype=torch.bool)
    if given.shape != (count,):
        raise UserError(f"{arrays.place}: {HAS}{name} has the shape {list(given.shape)}; give one value a sample")
    if not bool(given.any()):
        raise UserError(f"{arrays.place}: no sample has {name!r}, says {HAS}{name}; leave this modality out")
    return given.bool()


def _mask(arrays: Arrays, name: str, values: Tensor, has: Tensor) -> Tensor:
    """Which steps are real [N, L]; every sample that has the modality has at least one."""
    given, lengths = (arrays.tensors.get(f"{name}{ending}") for ending in ENDINGS)
    longest = values.shape[1]
    if given is not None:
        what, fits, mask = f"{name}_mask", given.shape == values.shape[:2], given.bool()
    elif lengths is not None:
        fits = lengths.shape == values.shape[:1] and bool(((lengths <= longest) & (lengths >= 0)).all())
        what, mask = f"{name}_lengths", torch.arange(longest) < lengths[..., None]
    else:
        return torch.ones(values.shape[:2], dtype=torch.bool)
    if not fits:
        raise UserError(f"{arrays.place}: array {what!r} does not fit {name!r} of the shape {list(values.shape)}")
    empty = has & ~mask.any(dim=1)
    if bool(empty.any()):
        raise UserError(
            f"{arrays.place}: row {int(empty.long().argmax())} of {name!r} has no real step, says {what!r}; leave the "
            f"sample out, or say in {HAS}{name} that it lacks this modality"
        )
    return mask


def _listed(arrays: Arrays, name: str) -> list[Any]:
    """Words or numbers, one per sample; published labels come as [N, 1, 1] too."""
    if name in arrays.words:
        return arrays.words[name]
    tensor = arrays.tensors[name]
    if tensor.ndim > 1 and tensor.numel() != len(tensor):
        raise UserError(f"{arrays.place}: {name!r} has the shape {list(tensor.shape)}; give one value a sample")
    return list((tensor.int() if tensor.dtype == torch.bool else tensor).flatten().tolist())
