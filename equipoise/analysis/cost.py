"""What a tower costs, and what further class tokens add: the estimate beside what is measured.

Sun and Li 2024, "Analyzing the Impact of Learnable Softmax Temperature ...", App. B.

    FLOPs ≈ t·l·(12 d² + 2 t d)           activations ≈ t·l·(36 d + 6 t d)

t tokens (patches or words, and class tokens), l layers, d width; all for one sample. The first counts multiply-adds:
12 d² of them a token for the maps of a block with an MLP four times as wide, 2 t d for attention. What torch counts
(`torch.utils.flop_counter`) are two operations each, so its figure is halved here. It knows nothing of fused attention
on a CPU, so attention is computed step by step while it counts.
The second is taken as printed. Its last term charges attention t·d a token; attention that stores its t × t matrices
needs t·heads, and fused attention none of it, so what is measured is less: the numbers that autograd keeps for the way
back, each storage once, weights left out.
Times on a CPU are processor time, all threads together, so that what else the machine does hardly shows; on a GPU they
are by the clock.
What is measured is the stack of blocks of the tower itself, built from the recipe with random weights, fed t tokens.

`draw_cost` shows what class tokens add, by the estimate and as measured.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from equipoise.encoders.packing import Even
from equipoise.io.figures import SERIES, captioned_figure, panel_title, style
from equipoise.types import UserError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

REPEATS = 15  # of which the quickest counts: what else the machine does only ever adds
PATIENCE = 4.0  # seconds for one measurement, if that allows more than one run
LINES = {  # label: field, colour, line
    "multiply-adds, estimate": ("estimated_macs", SERIES[0], (0, (4, 2))),
    "multiply-adds, measured": ("measured_macs", SERIES[0], "-"),
    "activations, estimate": ("estimated_activations", SERIES[1], (0, (4, 2))),
    "activations, measured": ("measured_activations", SERIES[1], "-"),
    "time of a training step, measured": ("seconds_training", SERIES[2], "-"),
}


class Stack(nn.Module):
    """The blocks of a transformer, fed tokens [N, t, d] of which all are real."""

    def __init__(self, transformer: nn.Module):
        super().__init__()
        self.transformer = transformer

    def forward(self, x: Tensor) -> Tensor:
        return self.transformer(x, Even())


@dataclass(frozen=True)
class TowerCost:
    """A stack of transformer blocks and the number of tokens it reads with one class token among them."""

    name: str
    blocks: nn.Module  # [N, t, d] -> [N, t, d]
    tokens: int
    layers: int
    width: int


@dataclass(frozen=True)
class Cost:
    """Cost of one sample."""

    class_tokens: int
    tokens: int
    estimated_macs: int
    measured_macs: int
    estimated_activations: int
    measured_activations: int
    seconds_forward: float
    seconds_training: float  # forward and backward


def estimated_macs(tokens: int, layers: int, width: int) -> int:
    return tokens * layers * (12 * width**2 + 2 * tokens * width)


def estimated_activations(tokens: int, layers: int, width: int) -> int:
    return tokens * layers * (36 * width + 6 * tokens * width)


def tower(name: str, encoder: nn.Module, tokens: int) -> TowerCost:
    """The tower of an encoder that is made of transformer blocks; raises UserError for any other."""
    blocks = getattr(encoder, "transformer", None)
    layers = getattr(blocks, "blocks", None)
    if blocks is None or layers is None:
        raise UserError(
            f"the {name} encoder ({type(encoder).__name__}) is no plain transformer of ours, so App. B's count says "
            "nothing of it; choose a vit-... and a causal-... or bert-... tower"
        )
    return TowerCost(name, Stack(blocks), tokens, len(layers), int(encoder.width))  # type: ignore[arg-type]


def costs(tower: TowerCost, class_tokens: Sequence[int], batch: int) -> list[Cost]:
    """The cost of the tower with each number of class tokens; times are those of a whole batch, divided."""
    if min(class_tokens) < 1:
        raise UserError(f"a tower has at least 1 class token, not {min(class_tokens)}")
    blocks, weight = tower.blocks, next(tower.blocks.parameters())
    inputs = [_tokens(tower, count, batch).to(weight.device, weight.dtype) for count in class_tokens]
    forward = _seconds([partial(_forward, blocks, x) for x in inputs], weight.device)
    training = _seconds([partial(_forward_and_back, blocks, x) for x in inputs], weight.device)
    found = []
    for count, x, *seconds in zip(class_tokens, inputs, forward, training, strict=True):
        size = (x.shape[1], tower.layers, tower.width)
        found.append(
            Cost(
                count,
                x.shape[1],
                estimated_macs(*size),
                count_macs(blocks, x[:1]),
                estimated_activations(*size),
                count_activations(blocks, x[:1]),
                *(each / batch for each in seconds),
            )
        )
    return found


def _tokens(tower: TowerCost, class_tokens: int, batch: int) -> Tensor:
    chance = torch.Generator().manual_seed(0)
    return torch.randn(batch, tower.tokens + class_tokens - 1, tower.width, generator=chance)


@torch.no_grad()
def count_macs(module: nn.Module, x: Tensor) -> int:
    """Multiply-adds of matrix products in a forward pass."""
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        module(x)
    return counter.get_total_flops() // 2


def count_activations(module: nn.Module, x: Tensor) -> int:
    """Numbers kept for the backward pass, each storage once, the weights left out."""
    weights = {parameter.untyped_storage().data_ptr() for parameter in module.parameters()}
    kept: dict[int, int] = {}
    alive = []  # so that no storage is freed and its address used again while we count

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            alive.append(tensor)
            kept[storage.data_ptr()] = storage.nbytes() // tensor.element_size()
        return tensor

    with saved_tensors_hooks(keep, lambda tensor: tensor):
        module(x.requires_grad_())
    return sum(kept.values())


@torch.no_grad()
def _forward(module: nn.Module, x: Tensor) -> None:
    module(x)


def _forward_and_back(module: nn.Module, x: Tensor) -> None:
    module(x).sum().backward()


def _seconds(works: Sequence[Callable[[], None]], device: torch.device) -> list[float]:
    """The quickest of a few runs of each, fewer where they take long; in turn, so that a slow while is slow for all."""
    times: list[list[float]] = []
    clock = time.process_time if device.type == "cpu" else time.perf_counter
    while len(times) <= REPEATS and sum(map(sum, times)) < PATIENCE * len(works):
        times.append([])
        for work in works:
            _wait(device)
            start = clock()
            work()
            _wait(device)
            times[-1].append(clock() - start)
    return [min(some) for some in zip(*times, strict=True)]


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def added(costs: Sequence[Cost], field: str) -> list[float]:
    """How much more than with one class token, as a share."""
    return [getattr(cost, field) / getattr(costs[0], field) - 1 for cost in costs]


def draw_cost(towers: Mapping[str, Sequence[Cost]], finding: str) -> Figure:
    """`towers` by name, each with its costs by number of class tokens, the first with 1."""
    with style():
        figure = captioned_figure("What class tokens cost", finding, height=4.2)
        panels = figure.subplots(1, len(towers), squeeze=False)[0]
        for axes, (name, costs) in zip(panels, towers.items(), strict=True):
            _panel(axes, costs)
            panel_title(axes, f"{name.capitalize()} tower, {costs[0].tokens} tokens with one class token")
        panels[0].set_ylabel("more than with one class token")
        panels[0].legend(loc="upper left")
    return figure


def _panel(axes: Axes, costs: Sequence[Cost]) -> None:
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    axes.set_xscale("log", base=2)
    counts = [cost.class_tokens for cost in costs]
    for label, (field, colour, line) in LINES.items():
        ring = {"markersize": 8, "markerfacecolor": "none"} if field.startswith("estimated") else {"markersize": 3.5}
        axes.plot(counts, added(costs, field), color=colour, linestyle=line, label=label, marker="o", **ring)  # type: ignore[arg-type]
    axes.xaxis.set_major_locator(FixedLocator(counts))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda count, _: f"{count:g}"))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{100 * share:+.0f}%"))
    axes.set_xlabel("class tokens")
