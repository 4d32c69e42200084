"""Every space and every variant of one, small enough for tests. A space that is added to SPACES is found by itself."""

from __future__ import annotations

from equipoise.spaces import SPACES, ProductSphere, Space

VARIANTS = {"product_sphere": ("inner", "geodesic")}
MANIFOLDS = [name for name, space in SPACES.items() if space.has_geodesics]  # sets of tokens have a test of their own
NAMES = [name for space in MANIFOLDS for name in (f"{space}-{v}" if v else space for v in VARIANTS.get(space, ("",)))]


def space_named(name: str, dim: int) -> Space:
    """One of NAMES with `dim` dimensions, an even number."""
    space, _, variant = name.partition("-")
    return ProductSphere(2, dim // 2, distance=variant) if variant else SPACES[space](dim=dim)
