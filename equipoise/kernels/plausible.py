"""UserError for inputs of a contrast that give a finite loss and cannot be meant: a logit scale where its logarithm
belongs, vectors that were not projected onto the space.

Functions that people call look here; training does not, for its points and its scale are the model's own. Numbers on a
GPU must be waited for, so there only the first contrast in each kind of space is looked at: such mistakes are there
from the start. While a graph is compiled or captured, nothing is looked at.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from equipoise.spaces import Scorer, Space
from equipoise.types import UserError

MOST = math.log(1000)  # CLIP keeps its own below ln 100
OFF = 0.02  # of a point's length; bfloat16 rounds by less than 0.01

_seen_on_gpu: set[tuple[torch.device, type]] = set()


def require_plausible(points: Mapping[str, Tensor], scorer: Scorer, log_scale: Tensor | float) -> None:
    """Raises UserError for a log-scale above ln 1000, and for points, by name, that are not of the space."""
    if torch.compiler.is_compiling():
        return
    if not isinstance(log_scale, Tensor):
        _require_log(float(log_scale))
    some = next(iter(points.values()))
    if not _is_cheap(some, type(scorer)):
        return
    if isinstance(log_scale, Tensor) and log_scale.numel() == 1:
        _require_log(float(log_scale.detach()))
    if isinstance(scorer, Space):
        for name, tensor in points.items():
            require_points(name, tensor, scorer)


def _is_cheap(points: Tensor, space: type) -> bool:
    if points.device.type == "cpu":
        return True
    if points.device.type != "cuda" or torch.cuda.is_current_stream_capturing():
        return False
    key = (points.device, space)
    is_first = key not in _seen_on_gpu
    _seen_on_gpu.add(key)
    return is_first


def _require_log(log_scale: float) -> None:
    if MOST < log_scale < math.inf:
        raise UserError(
            f"log_scale is {log_scale:.4g}, so that similarities are multiplied by exp({log_scale:.4g}); it is the "
            "logarithm of the logit scale, ln(1/τ): leave out .exp(), or take the logarithm"
        )


@torch.no_grad()
def require_points(name: str, points: Tensor, space: Space, projector: str = "space.project") -> None:
    """Raises UserError for points that are not of the space; `projector` is what would make points of them."""
    if points.ndim != 2 or points.shape[1] != space.dim or not len(points):
        return  # said elsewhere
    points = points.float() if points.dtype.itemsize < 4 else points
    nearest = space.project(points)
    away = (points - nearest).norm(dim=-1)
    off = away > OFF * nearest.norm(dim=-1)  # False where they are NaN, which is said elsewhere
    if off.any():
        row = int(off.nonzero()[0])
        raise UserError(
            f"{name} are not points of the {type(space).__name__}: row {row} is {float(away[row]):.3g} away from the "
            f"nearest one; project them first, as {projector}({name}) does"
        )
