"""`equipoise embed` by a model of named modalities: the point of every modality and of all together.

    00000.safetensors    NAME [n, d] for each modality, has_NAME [n] where some samples lack it, joint [n, d]
    00000.json           id [n], label [n] where there are labels
    embedding.json       what made them

The source `modalities` reads such a folder back; `joint` is no modality to it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from equipoise.data.bad_records import BadRecordCount
from equipoise.data.part_writer import PartWriter
from equipoise.data.source import HAS_MODALITY, ModalSource
from equipoise.data.tokenizer import NoTokenizer
from equipoise.io.results_folder import Place
from equipoise.io.resumable import NumberedFiles, write_arrays
from equipoise.models.modal_model import EVERY_MODALITY, ModalModel
from equipoise.models.model import evaluating
from equipoise.types import JOINT
from equipoise.workflows.embed.write import Embedding


def modal_part_writer(model: ModalModel, source: ModalSource, folder: Place, settings: Embedding) -> PartWriter:
    """What writes any of the files."""
    dtype = torch.float16 if settings.half else torch.float32

    def fill(path: Path, batches: Iterator[range]) -> None:
        parts: dict[str, list[Tensor]] = {}
        rows: list[int] = []
        for batch in batches:
            for name, tensor in points_of(model, source, batch).items():
                parts.setdefault(name, []).append(tensor)
            rows += batch
        tensors = {name: torch.cat(several) for name, several in parts.items()}
        pairs = [source.pair(row) for row in rows]
        words: dict[str, list[Any]] = {"id": [pair.key for pair in pairs]}
        if source.outputs:
            tensors["label"] = source.labels[rows]
        write_arrays(
            path, {name: t.to(dtype) if name in (*model.modalities, JOINT) else t for name, t in tensors.items()}, words
        )

    files = NumberedFiles(folder, len(source), settings.per_shard)
    return PartWriter(files, fill, settings.batch_size, BadRecordCount(0.0, len(source)))


@torch.no_grad()
def points_of(
    model: ModalModel, source: ModalSource, rows: Sequence[int], needs: Sequence[str] = (EVERY_MODALITY, JOINT)
) -> dict[str, Tensor]:
    """Points of every modality and of all together, or those that are needed, and who has which modality."""
    batch = source.batch(rows, (), NoTokenizer())
    with evaluating(model):
        made = model(batch.map(lambda tensor: tensor.to(model.device)), needs).roles()
    has = {f"has_{name}": batch.side[f"{HAS_MODALITY}{name}"] for name in model.modalities}
    return {**{name: points.cpu() for name, points in made.items()}, **has}
