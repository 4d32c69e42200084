"""Memory of a contrast in tiles is linear in N, in every space."""

from __future__ import annotations

import pytest
import torch
from every_space import NAMES, space_named
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from equipoise.forms import CrossEntropy
from equipoise.kernels import contrast
from equipoise.spaces import ProductSphere
from equipoise.targets import OneHot

N, TILE, DIM = 192, 32, 8


class Largest(TorchDispatchMode):
    """The most numbers that any tensor made meanwhile holds."""

    numbers = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        sizes = (leaf.numel() for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor))
        self.numbers = max([self.numbers, *sizes])
        return result


def largest(space, impl: str) -> int:
    u, v = (space.project(torch.randn(N, space.dim)).requires_grad_() for _ in range(2))
    with Largest() as seen:
        contrast(u, v, space=space, target=OneHot(), form=CrossEntropy(), impl=impl, tile=TILE).backward()
    return seen.numbers


@pytest.mark.parametrize("name", NAMES)
def test_no_tensor_of_a_tiled_contrast_is_larger_than_tile_or_points(name):
    assert largest(space_named(name, DIM), "tiled") <= max(N * DIM, TILE * TILE)
    assert largest(space_named(name, DIM), "eager") == N * N  # so the check above can fail


def test_many_spheres_cost_no_more_memory_than_one():
    """Per-sphere inner products would be N × N × m."""
    assert largest(ProductSphere(2, 64, distance="geodesic"), "eager") == N * N
