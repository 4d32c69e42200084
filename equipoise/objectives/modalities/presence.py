"""Samples that have all of some modalities: terms that compare them are of these samples alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from equipoise.types import UserError

Presence = Mapping[str, Tensor]  # per modality a bool [N]: which samples have it; names that are left out: all have it


def rows_with(present: Presence | None, names: Sequence[str], *codes: Tensor) -> tuple[Tensor, ...]:
    """The rows of each of `codes` [N, d] whose samples have all modalities of `names`."""
    known = [present[name] for name in names if name in present] if present else []
    if not known:
        return codes
    both = torch.stack(known).all(0)
    return tuple(code[both] for code in codes)


def nothing_of(*codes: Tensor) -> Tensor:
    """A loss of 0 that is part of the graph, where no sample has what a term compares."""
    return torch.stack([code.sum() * 0.0 for code in codes]).sum()


def check_codes(codes: Mapping[str, Tensor], joint: Tensor | None = None) -> None:
    """Raise UserError unless all codes are [N, d] alike, and there are two kinds at least."""
    shapes = {name: list(code.shape) for name, code in codes.items()}
    shapes |= {} if joint is None else {"the joint code": list(joint.shape)}
    if len(shapes) < 2:
        raise UserError(f"at least two kinds of codes are compared, but there are {sorted(shapes)}; give more")
    first = next(iter(shapes.values()))
    if len(first) != 2 or any(shape != first for shape in shapes.values()):
        told = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
        raise UserError(f"codes of all modalities must have one shape [N, d], but they are {told}")
