"""Linear maps whose products are of 8-bit floats, while they train; parameters stay what and where they are.

Micikevicius et al. 2022, "FP8 Formats for Deep Learning", §3.1 (e4m3); a scale for each row of each operand, made anew
in every step, as torchao's recipe `rowwise_with_gw_hp` has it.

    y  = x Wᵀ + b       x [T, in]: a scale for each token; W [out, in]: one for each output
    dx = g W            g [T, out]: a scale for each token; Wᵀ [in, out]: one for each input
    dW = gᵀ x           in bfloat16: its sum runs over tokens, whose scales cannot be taken out of it

    q(row) = e4m3(row · 448/max|row|),   product = (q(a) q(b)ᵀ) · max|a|/448 · max|b|/448

Gradients are e4m3 too: a row that has its own scale needs digits, not the range of e5m2. A row of zeros stays zero; NaN
and infinity come out as NaN, so that training notices. Products are summed in float32 and rounded to bfloat16.
Needs sizes that are multiples of 16, and a GPU of compute capability 8.9 or higher (training refuses others).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from equipoise.ops.round_rows import by_torch, rounded_rows
from equipoise.types import UserError

MULTIPLE = 16  # of sizes, which the products need
CAPABILITY = (8, 9)  # of GPUs that have such products


class Float8Linear(nn.Linear):
    """As nn.Linear in evaluation; in training, products of 8-bit floats and a bfloat16 result."""

    def __init__(self, linear: nn.Linear):
        nn.Module.__init__(self)
        self.in_features, self.out_features = linear.in_features, linear.out_features
        self._parameters.update(linear._parameters)
        self.train(linear.training)

    def forward(self, x: Tensor) -> Tensor:
        if not self.training:
            return super().forward(x)
        rows = x.to(torch.bfloat16).flatten(0, -2)
        y: Tensor = _Product.apply(rows, self.weight, self.bias)  # type: ignore[no-untyped-call]
        return y.unflatten(0, x.shape[:-1])


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.biased = None if bias is None else bias.dtype
        return scaled_product(x, weight, None if bias is None else bias.to(x.dtype))

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        g = upstream[0].to(x.dtype).contiguous()
        for_x = scaled_product(g, weight.t()) if ctx.needs_input_grad[0] else None
        for_weight = (g.t() @ x).to(weight.dtype) if ctx.needs_input_grad[1] else None
        for_bias = g.sum(0, dtype=torch.float32).to(ctx.biased) if ctx.biased and ctx.needs_input_grad[2] else None
        return for_x, for_weight, for_bias


def scaled_product(a: Tensor, b: Tensor, bias: Tensor | None = None) -> Tensor:
    """a [T, k] times bᵀ, b [n, k], both rounded to 8 bits row by row: [T, n], bfloat16."""
    (a8, a_scale), (b8, b_scale) = rounded_rows(a), by_torch(b)  # b is a weight, small and maybe transposed
    return torch._scaled_mm(
        a8, b8.t(), a_scale, b_scale.t(), bias=bias, out_dtype=torch.bfloat16, use_fast_accum=True
    )  # fmt: skip


def use_float8(blocks: Iterable[tuple[str, nn.Module]]) -> int:
    """Put Float8Linear in place of every plain linear map of these modules, given with their names; how many."""
    count = 0
    for name, block in blocks:
        for path, module in list(block.named_modules()):
            if type(module) is not nn.Linear or not path:
                continue
            if module.in_features % MULTIPLE or module.out_features % MULTIPLE:
                raise UserError(
                    f'precision "float8" needs sizes that are multiples of {MULTIPLE}, but {name}.{path} maps '
                    f"{module.in_features} to {module.out_features}; change the width, or training.precision to bf16"
                )
            parent, _, child = path.rpartition(".")
            block.get_submodule(parent)._modules[child] = Float8Linear(module)
            count += 1
    return count


def can_float8(device: torch.device) -> bool:
    return device.type == "cuda" and torch.cuda.get_device_capability(device) >= CAPABILITY
