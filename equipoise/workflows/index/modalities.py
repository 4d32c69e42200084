"""Points of named modalities for an index: a row for each sample by all its modalities together, or by single ones.

    00000.safetensors    number [n] of each sample in the data; NAME [n, d] and has_NAME [n] of what is indexed

A sample that lacks a modality has no row of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import torch
from torch import Tensor

from equipoise.data.source import ModalSource, Source, has_modalities
from equipoise.index import Record
from equipoise.index.making import Rows
from equipoise.io.resumable import write_arrays
from equipoise.models.folder import read_tensors
from equipoise.models.modal_model import ModalModel, subset_inputs
from equipoise.types import JOINT, UserError
from equipoise.workflows.embed.modalities import points_of
from equipoise.workflows.probe_modalities import chosen_modalities

ALL = "all"


def indexed_modalities(model: ModalModel, of: str) -> tuple[str, ...]:
    """What `of` names: nothing is all modalities together (`joint`), `all` these and every single one."""
    known = (*model.modalities, JOINT)
    if of == ALL:
        return known
    names = tuple(dict.fromkeys(name.strip() for name in (of or JOINT).split(",")))
    if unknown := [name for name in names if name not in known]:
        raise UserError(
            f'--of names "{unknown[0]}", but this model reads {", ".join(model.modalities)}; say {JOINT}, some of '
            f"these with commas between them, or {ALL}"
        )
    return names


def modal_filler(model: ModalModel, source: Source, of: Sequence[str]) -> Callable[[Path, Iterator[range]], None]:
    """What writes a file of points."""
    assert has_modalities(source)

    def fill(path: Path, batches: Iterator[range]) -> None:
        parts: dict[str, list[Tensor]] = {}
        for batch in batches:
            made = indexed_points(model, source, batch, of)
            for name, tensor in {**made, "number": torch.tensor(batch)}.items():
                parts.setdefault(name, []).append(tensor)
        write_arrays(path, {name: torch.cat(several).contiguous() for name, several in parts.items()}, {})

    return fill


def indexed_points(model: ModalModel, source: ModalSource, rows: Sequence[int], of: Sequence[str]) -> dict[str, Tensor]:
    """NAME [n, d] of what is indexed, and has_NAME [n]: all together has whoever has one of them."""
    made = points_of(model, source, rows, of)
    made[f"has_{JOINT}"] = torch.stack([made[f"has_{name}"] for name in model.modalities]).any(0)
    return {name: made[name].float() if name in of else made[name] for one in of for name in (one, f"has_{one}")}


def modal_rows(source: Source, paths: Sequence[Path], of: Sequence[str]) -> Iterator[Rows]:
    """All rows of the files, one modality after the other."""
    for path in paths:
        tensors = read_tensors(path)
        for name in of:
            has = tensors[f"has_{name}"]
            pairs = [source.pair(number) for number in tensors["number"][has].tolist()]
            records = [Record(pair.key, side={"label": pair.label} if pair.label else {}, of=name) for pair in pairs]
            if records:
                yield Rows(tensors[name][has], records, [None] * len(records))


def modal_queries(model: ModalModel, source: Source, rows: Sequence[int], of: Sequence[str]) -> Tensor:
    """Points by which recall is measured: of a modality that is not indexed, where there is one, as people will search
    with; else of the first that is."""
    assert has_modalities(source)
    name = next((name for name in model.modalities if name not in of), of[0])
    made = indexed_points(model, source, rows, (name,))
    return made[name][made[f"has_{name}"]]


def sample_point(model: ModalModel, source: Source, key: str, by: str) -> Tensor:
    """The point [1, d] of a sample by some of its modalities, or by all."""
    assert has_modalities(source)
    together, names = by in ("", JOINT), chosen_modalities(model, by)
    row = next((row for row in range(len(source)) if source.pair(row).key == key), None)
    if row is None:
        raise UserError(f'no sample of the data is called "{key}"; look its id up, or name another --split')
    if lacking := [name for name in names if not together and not bool(source.present(name)[row])]:
        raise UserError(f'"{key}" has no {lacking[0]}; name another modality with --by')
    return model.encode(subset_inputs(source.batch([row], (), model.tokens), names))
