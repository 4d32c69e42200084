"""Who judges whether a picture shows what a caption says, for SIMAT's files.

The published judge is OSCAR, a model of Visual Genome's regions: `oscar_similarity_matrix.pt`, a score for each picture
and caption. It may also be kept as `.npy` or `.safetensors`; no code in any of them is run. Where there is none,
"exact" asks whether the picture's own triplet is the one wanted. It is stricter: a dog that lies on a rug and is
annotated as "dog laying in carpet" counts as wrong, so its scores are no SIMAT scores of the literature.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from equipoise.data.simat_questions import Oracle, Transformation, Triplet
from equipoise.types import UserError

EXACT = "exact"
NAMES = ("oscar_similarity_matrix", "oracle")
PLACE = {"subj": 0, "rel": 1, "obj": 2}


def read_oracle(
    folder: Path, wanted: str, asked: Sequence[Transformation], triplets: Sequence[Triplet], captions: int
) -> Oracle:
    """`wanted` is "exact", a file, or empty: the one in the folder."""
    if wanted == EXACT:
        return exact(asked, triplets, captions)
    path = Path(wanted) if wanted else _found(folder)
    return Oracle(path.name, read_matrix(path))


def exact(asked: Sequence[Transformation], triplets: Sequence[Triplet], captions: int) -> Oracle:
    """Right is what shows the source's triplet with the one word replaced, and nothing else."""
    kinds: dict[Triplet, int] = {}
    shown = torch.tensor([kinds.setdefault(triplet, len(kinds)) for triplet in triplets])
    meant = torch.full((captions,), -1)  # what each caption says; -1: nothing is asked of it
    for one in asked:
        if one.field not in PLACE:
            raise UserError(
                f'transformation {one.number} replaces a {one.field}; "exact" is for subj, rel and obj alone'
            )
        parts = list(triplets[one.source])
        parts[PLACE[one.field]] = one.target
        kind = kinds.setdefault((parts[0], parts[1], parts[2]), len(kinds))
        if meant[one.caption] not in (-1, kind):
            raise UserError(
                f"transformation {one.number} wants caption {one.caption} to say {' '.join(parts)}, but an earlier one "
                "wants it to say something else; correct target_ids, or give an oracle"
            )
        meant[one.caption] = kind
    return Oracle("exact triplets", shown[:, None] == meant)


def _found(folder: Path) -> Path:
    candidates = [folder / f"{name}{ending}" for name in NAMES for ending in READERS]
    for path in candidates:
        if path.is_file():
            return path
    raise UserError(
        f"{folder} has no {NAMES[0]}.pt, the judge of SIMAT; put it there (.npy and .safetensors do as well), give one "
        f"with --oracle FILE, or compare triplets with --oracle {EXACT}, whose scores are no published ones"
    )


def read_matrix(path: Path) -> Tensor:
    """The scores [N, C]."""
    if path.suffix not in READERS:
        raise UserError(f"{path}: an oracle is read from {', '.join(READERS)} files; convert this one")
    if not path.is_file():
        raise UserError(f"{path}: there is no such file; check the path")
    try:
        found = READERS[path.suffix](path)
    except UserError:
        raise
    except Exception as error:  # three libraries, each with errors of its own for a file that is broken
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise UserError(f"{path}: this cannot be read as a matrix ({reason[:120]}); write it again") from None
    if not isinstance(found, Tensor) or found.dim() != 2 or found.is_complex():
        raise UserError(f"{path} holds no matrix of numbers; give one row a picture and one column a caption")
    if found.is_floating_point() and not found.isfinite().all():
        raise UserError(f"{path} holds numbers that are not finite; write it again")
    return found


def _safetensors(path: Path) -> Tensor:
    from safetensors.torch import load_file

    tensors = load_file(path)
    if len(tensors) != 1:
        raise UserError(f"{path} holds {len(tensors)} tensors; give the matrix alone")
    return next(iter(tensors.values()))


def _pt(path: Path) -> object:
    return torch.load(path, map_location="cpu", weights_only=True)


def _npy(path: Path) -> Tensor:
    return torch.from_numpy(np.load(path, allow_pickle=False))


READERS: dict[str, Callable[[Path], object]] = {".pt": _pt, ".npy": _npy, ".safetensors": _safetensors}
