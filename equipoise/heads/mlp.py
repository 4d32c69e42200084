"""MLPs with batch norm, of which projectors and predictors are made."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from torch import Tensor, nn

from equipoise.encoders.batch_norm import BatchNorm


class VectorNorm(BatchNorm):
    """Batch norm of vectors [N, C], with the promises of `encoders/batch_norm.py`."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x[:, :, None, None])[:, :, 0, 0]


def mlp(widths: Sequence[int], norm_last: bool) -> nn.Sequential:
    """MLP of Linear, batch norm and ReLU through these widths; the last is Linear alone, or Linear and batch norm."""
    layers: list[nn.Module] = []
    for into, out in pairwise(widths[:-1]):
        layers += [nn.Linear(into, out), VectorNorm(out), nn.ReLU()]
    layers.append(nn.Linear(widths[-2], widths[-1]))
    return nn.Sequential(*layers, *([VectorNorm(widths[-1])] if norm_last else []))
