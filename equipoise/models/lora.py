"""Low-rank adapters: a linear map of a tower stays, and a thin product learns what to add to it.

Hu et al. 2022, "LoRA: Low-Rank Adaptation of Large Language Models", §4.1, Eq. 3.

    W = W₀ + (α/r) B A          W₀ [out, in] frozen; A [r, in] starts at random, B [out, r] at zero: at first W = W₀

The paper adapts the attention's maps; here all linear maps of both towers do unless `layers` names some (`qkv`, `out`).
The sum is made before it meets the input, in float32 at least, so what is trained is what is left when the adapters are
merged. They live in training and in its checkpoints only: a model that is loaded has W alone, under its old names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from equipoise.models.model import Model
from equipoise.settings.bounds import bounded
from equipoise.types import UserError

UP, DOWN = ".adapter.up", ".adapter.down"


class Adapter(nn.Module):
    """The low-rank product B A of one linear map: `up` is B, `down` is A."""

    added = True  # `training.trains = "added"` trains it alone

    def __init__(self, weight: Tensor, rank: int):
        super().__init__()
        rows, cols = weight.shape
        self.down = nn.Parameter(cols**-0.5 * torch.randn(rank, cols, dtype=weight.dtype, device=weight.device))
        self.up = nn.Parameter(weight.new_zeros(rows, rank))


class AdaptedLinear(nn.Linear):
    """Linear map whose `weight` is W; W₀ keeps the name `weight` among the parameters."""

    def __init__(self, linear: nn.Linear, rank: int, scale: float):
        nn.Module.__init__(self)
        self.in_features, self.out_features, self.scale = linear.in_features, linear.out_features, scale
        self._parameters.update(linear._parameters)
        self.adapter = Adapter(linear.weight, rank)

    @property
    def weight(self) -> Tensor:  # type: ignore[override]
        with torch.autocast(self.adapter.up.device.type, enabled=False):
            frozen = self._parameters["weight"]
            assert frozen is not None
            return with_product(frozen, self.adapter.up, self.adapter.down, self.scale)


@dataclass(frozen=True)
class Lora:
    rank: int = bounded(0, 0, 2**16)  # r; 0: no adapters
    alpha: float = 16.0  # α
    layers: tuple[str, ...] = ()  # endings of the adapted maps' names; none: all maps of both towers

    def __post_init__(self) -> None:
        if self.rank < 0:
            raise UserError(f"rank must be at least 0, not {self.rank}")
        if not self.alpha > 0:
            raise UserError(f"alpha must be positive, not {self.alpha}")

    @property
    def cites(self) -> tuple[str, ...]:
        return ("hu2022lora",) if self.rank else ()

    @property
    def scale(self) -> float:
        return self.alpha / self.rank

    def put_into(self, model: Model) -> None:
        """Put adapters on the towers' linear maps, in place."""
        if not self.rank:
            return
        chosen = [(name, linear) for name, linear in _linears(model) if name.endswith(self.layers or ("",))]
        if not chosen:
            ends = sorted({name.rpartition(".")[2] for name, _ in _linears(model)})
            raise UserError(
                f"lora.layers = {list(self.layers)} is the end of no linear map's name; there are {', '.join(ends)}"
            )
        for name, linear in chosen:
            parent, _, child = name.rpartition(".")
            model.get_submodule(parent)._modules[child] = AdaptedLinear(linear, self.rank, self.scale)

    def merged(self, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """State dict of the same model with the adapters merged into its maps."""
        plain = {name: tensor for name, tensor in state.items() if not name.endswith((UP, DOWN))}
        for name in state:
            if name.endswith(UP):
                linear = name.removesuffix(UP)
                weight, down = f"{linear}.weight", state[f"{linear}{DOWN}"]
                plain[weight] = with_product(state[weight], state[name], down, self.scale)
        return plain


def with_product(weight: Tensor, up: Tensor, down: Tensor, scale: float) -> Tensor:
    return torch.addmm(weight, up, down, alpha=scale)


def _linears(model: Model) -> list[tuple[str, nn.Linear]]:
    return [
        (name, module)
        for name, module in model.named_modules()
        if isinstance(module, nn.Linear) and name.startswith(("image_encoder.", "text_encoder."))
    ]
