"""What `training.recompute_activations` saves of a ViT's memory, and what it costs: none, "cheap", all.

    python benchmarks/recomputation.py

Kept are the bytes that operations made and that are alive between the forward and the backward pass, weights left out;
products are operations of matrix products and attention in both passes, over those without recomputation; seconds are
the processor's, the median over steps.
"""

from __future__ import annotations

import argparse
import statistics
import time
import weakref
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode

from equipoise.encoders.recomputation import CHEAP, Recompute
from equipoise.encoders.vit import ViT

HOWS: dict[str, Recompute] = {"false": False, '"cheap"': CHEAP, "true": True}


class Memory(TorchDispatchMode):
    """Bytes of tensors that operations made and that are still alive, and the most at once."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.now = self.peak = 0
        self.seen = {weight.untyped_storage()._cdata for weight in module.parameters()}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(made):
            if isinstance(tensor, Tensor):
                self._count(tensor.untyped_storage())
        return made

    def _count(self, storage: torch.UntypedStorage) -> None:
        if storage._cdata not in self.seen:
            self.seen.add(storage._cdata)
            self.now += storage.nbytes()
            self.peak = max(self.peak, self.now)
            weakref.finalize(storage, self._free, storage._cdata, storage.nbytes())

    def _free(self, key: int, size: int) -> None:
        self.seen.discard(key)
        self.now -= size


def kept_and_peak(tower: ViT, images: Tensor) -> tuple[int, int]:
    """Bytes between the passes, and the most in either, gradients of weights among them."""
    tower.zero_grad()
    with Memory(tower) as memory:
        made = tower(images, classes_only=True).classes.square().mean()
        kept = memory.now
        made.backward()
    return kept, memory.peak


def operations(tower: ViT, images: Tensor) -> int:
    tower.zero_grad()
    with FlopCounterMode(display=False) as counter:
        tower(images, classes_only=True).classes.square().mean().backward()
    return counter.get_total_flops()


def seconds(tower: ViT, images: Tensor, steps: int) -> float:
    """Of the processor for a step, after one that is not counted."""
    took = []
    for _ in range(steps + 1):
        tower.zero_grad()
        start = time.process_time()
        tower(images, classes_only=True).classes.square().mean().backward()
        took.append(time.process_time() - start)
    return statistics.median(took[1:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, default in (("width", 384), ("layers", 12), ("heads", 6), ("patch", 16), ("size", 224), ("batch", 8)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--steps", type=int, default=5)
    options = parser.parse_args()
    torch.manual_seed(0)
    config = ViT.Config(patch=options.patch, width=options.width, layers=options.layers, heads=options.heads)
    tower = config.build(options.size).train()
    assert isinstance(tower, ViT)
    images, plain = torch.randn(options.batch, 3, options.size, options.size), 0
    print("| recompute_activations | kept MiB | peak MiB | products | processor s a step |\n|---|---:|---:|---:|---:|")
    for name, how in HOWS.items():
        tower.recompute_activations(how)
        kept, peak = kept_and_peak(tower, images)
        done = operations(tower, images)
        plain = plain or done
        took = seconds(tower, images, options.steps)
        print(f"| {name} | {kept / 2**20:,.0f} | {peak / 2**20:,.0f} | {done / plain:.2f} | {took:.2f} |", flush=True)


if __name__ == "__main__":
    main()
