"""The pickles in which CMU-MOSI and CMU-MOSEI were published, made into files that the source `modalities` reads.

    {"train": {"text": [N, L, w], "audio": ..., "vision": ..., "labels": [N, 1, 1], "id": ...}, "valid": ..., ...}

Some editions have `regression_labels` [N], and `audio_lengths` and `vision_lengths` [N] beside the arrays.

A pickle may name any function; this reader knows arrays, texts and numbers alone (`io/plain_pickle.py`) and refuses
every other. Numbers that are not finite (the audio of MOSEI has -inf) become 0, as in the code of MulT.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from equipoise.data.modalities.modal_file import split_name
from equipoise.data.splits import SPLITS
from equipoise.io.plain_pickle import read_plain_pickle
from equipoise.io.resumable import write_arrays
from equipoise.types import UserError

MOST_BYTES = 1 << 34  # MOSEI's is below 4 GiB
LABELS = ("labels", "label", "regression_labels")
IDS = ("id", "ids")


def convert_pickle(path: Path, folder: Path) -> dict[str, int]:
    """Write one file a split; returns how many samples each has."""
    content = read_plain_pickle(path, MOST_BYTES)
    splits = {split_name(name): table for name, table in content.items()} if isinstance(content, dict) else {}
    found = {name: splits[name] for name in SPLITS if isinstance(splits.get(name), dict)}
    if "train" not in found:
        raise UserError(
            f"{path}: this is no table of train, valid and test with arrays in each; give the published file"
        )
    folder.mkdir(parents=True, exist_ok=True)
    return {name: _write(folder / f"{name}.safetensors", table, f"{path}, {name}") for name, table in found.items()}


def _write(path: Path, table: Mapping[str, Any], where: str) -> int:
    tensors = {name: _finite(value) for name, value in table.items() if _is_modality(name, value)}
    if not tensors:
        raise UserError(f"{where}: there are no arrays [N, L, w] or [N, w] of numbers; give the published file")
    count = len(next(iter(tensors.values())))
    label = next((table[name] for name in LABELS if name in table), None)
    if label is not None:
        tensors["label"] = torch.from_numpy(np.array(label, dtype=np.float32).reshape(len(label), -1)[:, 0].copy())
    tensors |= {f"{name}_lengths": _lengths(table[f"{name}_lengths"]) for name in _with_lengths(tensors, table)}
    ids = next((table[name] for name in IDS if name in table), None)
    words = {} if ids is None else {"id": _unique(ids)}
    sizes = {name: len(rows) for name, rows in tensors.items()} | {name: len(rows) for name, rows in words.items()}
    for name, rows in sizes.items():
        if rows != count:
            raise UserError(f"{where}: {name} has {rows} rows and another {count}; give the published file")
    write_arrays(path, tensors, words)
    return count


def _is_modality(name: str, value: Any) -> bool:
    numbers = isinstance(value, np.ndarray) and value.dtype.kind == "f" and value.ndim in (2, 3)
    return numbers and name not in LABELS and value.size > 0


def _with_lengths(tensors: Mapping[str, Tensor], table: Mapping[str, Any]) -> list[str]:
    """Sequences of which the file says how many steps are real, as some editions of these sets do."""
    return [name for name, tensor in tensors.items() if tensor.ndim == 3 and f"{name}_lengths" in table]


def _lengths(value: Any) -> Tensor:
    return torch.from_numpy(np.asarray(value, dtype=np.int64).reshape(-1).copy())


def _finite(value: np.ndarray) -> Tensor:
    return torch.from_numpy(np.nan_to_num(value.astype(np.float32), nan=0.0, posinf=0.0, neginf=0.0))


def _unique(ids: Any) -> list[str]:
    """Ids as one text each: MulT's files have video, begin and end; segments of one id are numbered."""
    rows = [row if isinstance(row, str) else "_".join(map(_plain, np.atleast_1d(row).tolist())) for row in ids]
    seen: dict[str, int] = {}
    unique = []
    for row in rows:
        seen[row] = seen.get(row, -1) + 1
        unique.append(f"{row}_{seen[row]}" if seen[row] else row)
    return unique


def _plain(value: Any) -> str:
    return value.decode("latin1") if isinstance(value, bytes) else str(value)
