"""Every pair judged on its own, match or no match: the loss of SigLIP.

Zhai et al. 2023, "Sigmoid Loss for Language Image Pre-Training", Alg. 1.

    L = -1/N Σ_ij log σ(y_ij x_ij) = 1/N Σ_ij [ softplus(x_ij) - p_ij x_ij ],   x = z + b,   y = 2p - 1

z [N, M] logits exp(t)·s(u, v); p the target, 1 for a match and 0 otherwise (shares between are allowed); b the bias.
The paper learns b from -10. Here it is a setting or, if `learned`, starts there as a parameter of the model, which
`contrast` has added to z already. `cross_entropy` lets the pairs of a row compete; this does not. Half of each pair's
cost is its row's and half its column's, so weights m of pairs count (m_i + m_j)/2 of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor
from torch.nn import functional as F

from equipoise.forms.form import SUM, ClosedFormGrad, Reduction, Statistics
from equipoise.targets import TargetBlock


@dataclass(frozen=True)
class Sigmoid(ClosedFormGrad):
    cites: ClassVar[tuple[str, ...]] = ("zhai2023siglip",)
    reductions: ClassVar[Mapping[str, Reduction]] = {"cost": SUM}
    divisible: ClassVar[bool] = True
    weighable: ClassVar[bool] = True

    bias: float = -10.0  # added to every logit; where it is learned, at the start
    learned: bool = False  # whether it is trained

    @property
    def learned_bias(self) -> float | None:
        return self.bias if self.learned else None

    def partial(self, logits: Tensor, target: TargetBlock, normalizers: Statistics | None = None) -> Statistics:
        x = logits + self._fixed
        rows, cols = (_cost(x, p).sum(dim) for p, dim in ((target.by_row, 1), (target.by_col, 0)))
        return Statistics({"cost": rows}, {"cost": cols}, (logits.shape[0], logits.shape[1]))

    def finish(self, statistics: Statistics) -> Tensor:
        both_ways = statistics.rows["cost"].sum() + statistics.cols["cost"].sum()
        return both_ways / (2 * statistics.shape[0])

    def grad(self, logits: Tensor, target: TargetBlock, statistics: Statistics) -> Tensor:
        grad, shares = (logits + self._fixed).sigmoid_(), [target.by_row, target.by_col]
        if target.weights is not None:
            each = target.weights[0][:, None], target.weights[1]
            grad.mul_((each[0] + each[1]) / 2)
            shares = [p if p is None else p * weights for p, weights in zip(shares, each, strict=True)]
        for p in shares:
            if p is not None:
                grad.sub_(p, alpha=0.5)
        return grad.div_(statistics.shape[0])

    @property
    def _fixed(self) -> float:
        return 0.0 if self.learned else self.bias


def _cost(x: Tensor, p: Tensor | None) -> Tensor:
    softplus = -F.logsigmoid(-x)  # F.softplus itself calls e⁻²⁰ zero, and its gradient too
    return softplus if p is None else softplus - p * x
