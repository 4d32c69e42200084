"""Tensors in the files of a checkpoint, whole or by rows, read when they are asked for.

A tensor that was spread over ranks lies in as many files, some rows in each, in their order. So whoever reads it needs
to know nothing of how many wrote it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch import Tensor

from equipoise.training.distributed.dtensors import local_part, local_rows
from equipoise.types import UserError


class CheckpointReader:
    """`stored.read("weights/logit_scale")`; with `rows`, that part of the whole."""

    def __init__(self, files: Sequence[Path]):
        self._held: dict[str, list[Any]] = {}
        for path in files:
            file = safe_open(path, "pt")  # kept open as long as this object lives
            for name in file.keys():  # noqa: SIM118 (no dict)
                self._held.setdefault(name, []).append(file)

    def names(self, part: str = "") -> list[str]:
        """Of tensors whose names begin with `part`, which is left out."""
        return [name.removeprefix(part) for name in self._held if name.startswith(part)]

    def shape(self, name: str) -> torch.Size:
        shapes = [file.get_slice(name).get_shape() for file in self._held[name]]
        return torch.Size(shapes[0] if len(shapes) == 1 else (sum(shape[0] for shape in shapes), *shapes[0][1:]))

    def read(self, name: str, rows: range | None = None) -> Tensor:
        if rows is None and len(self._held[name]) == 1:
            return self._held[name][0].get_tensor(name).clone()  # else a view of the file, which will go
        rows = range(self.shape(name)[0]) if rows is None else rows
        parts, start = [], 0
        for file in self._held[name]:
            there = file.get_slice(name)
            count = there.get_shape()[0]
            first, last = max(rows.start - start, 0), min(rows.stop - start, count)
            if first < last or count == 0:
                parts.append(there[first : max(first, last)] if count else file.get_tensor(name))
            start += count
        if not parts:  # this rank holds no rows of a tensor with fewer rows than there are ranks
            parts.append(there[:0])
        return torch.cat(parts)

    @torch.no_grad()
    def load_into(self, tensors: Mapping[str, Tensor], part: str = "") -> None:
        """Every tensor with what is stored under its name; they must be the same ones, of the same shapes."""
        if other := set(self.names(part)) ^ set(tensors):
            raise UserError(f"it does not fit this model, which differs in {', '.join(sorted(other)[:3])}")
        for name, tensor in tensors.items():
            if self.shape(part + name) != tensor.shape:
                raise UserError(f"{name} is {list(self.shape(part + name))} there, but {list(tensor.shape)} here")
            local_part(tensor).copy_(self.read(part + name, local_rows(tensor)))
