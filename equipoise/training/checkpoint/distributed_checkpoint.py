"""Tensors of a checkpoint, saved and loaded by torch.distributed.checkpoint (DCP).

Tensors that FSDP2 shards over ranks (DTensor) are saved without gathering them: every rank writes one safetensors file
with its part of each, `sharded/shard-R-model-....safetensors`. On loading, DCP's planner works out which pieces of the
files each rank needs, so any number of ranks, one included, can load what any number saved.

The storage is DCP's HuggingFaceStorageWriter and -Reader. The default one keeps its metadata in a pickle, which could
run code of whoever made the file; here the offset of each part is JSON in the header of its file
(`safetensors_writer.py`).
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import torch
import torch.distributed.checkpoint as dcp
from torch import Tensor
from torch.distributed.checkpoint.metadata import TensorStorageMetadata

from equipoise.io.atomic import CannotWrite
from equipoise.training.checkpoint.legacy_rows import RowsReader, has_rows
from equipoise.training.checkpoint.safetensors_writer import SafetensorsWriter
from equipoise.types import UserError

SHARDED = "sharded"
# prefixes of names, as checkpoints have spelled them from the first; names without one are the model's own
PARTS = OPTIMIZER, TRAINED, MEMORY, RANDOM = "optimiser/", "weights/", "memory/", "random/"
MODEL = ""


def save_sharded(tensors: Mapping[str, Tensor], folder: Path) -> dict[str, str]:
    """Write this rank's part of each tensor; gives the digest of its file by the file's name. Every rank calls it;
    where one fails, all raise the same error."""
    writer = SafetensorsWriter(str(folder), save_distributed=True)
    try:
        with _plain_errors():
            dcp.save(dict(tensors), storage_writer=writer)
    except OSError as error:
        raise CannotWrite(folder, error.strerror or str(error)) from error
    return dict(writer.digests)


class CheckpointReader:
    """Tensors in the safetensors files of a folder and of its subfolder `sharded`, by name."""

    def __init__(self, folder: Path):
        folders = [path for path in (folder, folder / SHARDED) if path.is_dir()]
        readers = [(RowsReader if has_rows(path) else dcp.HuggingFaceStorageReader)(str(path)) for path in folders]
        self._stored: dict[str, tuple[dcp.HuggingFaceStorageReader, TensorStorageMetadata]] = {}
        for reader in readers:
            for name, found in reader.read_metadata().state_dict_metadata.items():
                assert isinstance(found, TensorStorageMetadata)
                _require_complete(name, found)
                self._stored[name] = reader, found

    def names(self, part: str) -> list[str]:
        """Names of the tensors of one of PARTS, without its prefix, or of the model."""
        if part == MODEL:
            return [name for name in self._stored if not name.startswith(PARTS)]
        return [name.removeprefix(part) for name in self._stored if name.startswith(part)]

    def shape(self, name: str) -> torch.Size:
        """Shape of the whole tensor."""
        return self._stored[name][1].size

    def dtype(self, name: str) -> torch.dtype:
        return self._stored[name][1].properties.dtype

    def empty(self, name: str) -> Tensor:
        """Room for the whole tensor, on the CPU."""
        return torch.empty(self.shape(name), dtype=self.dtype(name))

    def read(self, name: str) -> Tensor:
        """The whole tensor, on the CPU."""
        tensor = self.empty(name)
        self.fill({name: tensor})
        return tensor

    def fill(self, tensors: Mapping[str, Tensor], part: str = MODEL) -> None:
        """Overwrite each tensor, or this rank's shard of it, with what is stored under `part` and its name."""
        by_reader: dict[dcp.HuggingFaceStorageReader, dict[str, Tensor]] = {}
        for name, tensor in tensors.items():
            by_reader.setdefault(self._stored[part + name][0], {})[part + name] = tensor
        for reader, wanted in by_reader.items():
            with warnings.catch_warnings(), _plain_errors():
                # each rank reads by itself, so that an error of one cannot leave the others waiting
                warnings.filterwarnings("ignore", message="torch.distributed is disabled")
                dcp.load(wanted, storage_reader=reader, no_dist=True)

    def load_into(self, tensors: Mapping[str, Tensor], part: str = MODEL) -> None:
        """As `fill`, of all tensors of `part`; raises UserError if names, shapes or types differ."""
        if other := set(self.names(part)) ^ set(tensors):
            raise UserError(f"it does not fit this model, which differs in {', '.join(sorted(other)[:3])}")
        for name, tensor in tensors.items():
            self.require_like(part + name, tensor)
        self.fill(tensors, part)

    def require_like(self, name: str, tensor: Tensor) -> None:
        """Raise UserError unless what is stored has the shape and the type of `tensor`; DCP would convert types."""
        if self.shape(name) != tensor.shape:
            raise UserError(f"{name} is {list(self.shape(name))} there, but {list(tensor.shape)} here")
        if self.dtype(name) != tensor.dtype:
            raise UserError(f"{name} is {self.dtype(name)} there, but {tensor.dtype} here")


def _require_complete(name: str, stored: TensorStorageMetadata) -> None:
    """DCP leaves a gap as it is: a file that is missing must not become weights that were never written."""
    if sum(math.prod(chunk.sizes) for chunk in stored.chunks) != math.prod(stored.size):
        raise ValueError(f"parts of {name} are missing")


@contextmanager
def _plain_errors() -> Iterator[None]:
    """DCP wraps the errors of all ranks in a BaseException; raise the first of them as it was."""
    try:
        yield
    except dcp.CheckpointException as wrapped:
        error, _ = next(iter(wrapped.failures.values()))
        raise error from wrapped
