"""Sharded state as checkpoints held it before they were written by DCP: `rows-R-of-W.safetensors` beside the model.

Rank R of W wrote its rows of every tensor under the tensor's name. The offset of a part follows from the files before
it, in the order of ranks; given that, DCP reads them as it reads its own.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch
from safetensors import safe_open
from torch.distributed.checkpoint import HuggingFaceStorageReader
from torch.distributed.checkpoint.metadata import ChunkStorageMetadata, Metadata, MetadataIndex, TensorStorageMetadata

PATTERN = "rows-*-of-*.safetensors"


def has_rows(folder: Path) -> bool:
    """Whether a checkpoint was written by ranks in that way."""
    return any(folder.glob(PATTERN))


class RowsReader(HuggingFaceStorageReader):
    """Reads the files of such a checkpoint, those of whole tensors too."""

    def read_metadata(self) -> Metadata:
        metadata = super().read_metadata()  # takes every part for a whole tensor
        for name, parts in _parts(Path(self.path)).items():
            place = metadata.storage_data.pop(MetadataIndex(name, [0] * len(parts[0][1])))
            chunks, start = [], 0
            for file, shape in parts:
                offsets = torch.Size([start, *[0] * (len(shape) - 1)])
                chunks.append(ChunkStorageMetadata(offsets, torch.Size(shape)))
                metadata.storage_data[MetadataIndex(name, offsets)] = replace(place, relative_path=str(file))
                start += shape[0]
            stored = metadata.state_dict_metadata[name]
            assert isinstance(stored, TensorStorageMetadata)
            stored.size, stored.chunks = torch.Size([start, *parts[0][1][1:]]), chunks
        return metadata


def _parts(folder: Path) -> dict[str, list[tuple[Path, list[int]]]]:
    """The files that hold rows of each tensor, in the order of ranks, with the shape of those rows."""
    files = sorted(folder.glob(PATTERN))
    if len(files) != (world := int(files[0].stem.rpartition("-")[2])):
        raise FileNotFoundError(f"{len(files)} files of rows are there, but {world} processes wrote them")
    parts: dict[str, list[tuple[Path, list[int]]]] = {}
    for path in files:
        with safe_open(path, "pt") as file:
            for name in file.keys():  # noqa: SIM118 (no dict)
                shape = file.get_slice(name).get_shape()
                if shape[0] or name not in parts:  # a rank may hold no rows
                    parts.setdefault(name, []).append((path, shape))
    return parts
