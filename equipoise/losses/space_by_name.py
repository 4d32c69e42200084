"""The space of a loss: given as it is, or by name, and then as wide as the features.

A product that is only named has as many factors of the usual size as there is room for: `product_sphere` of 512 numbers
is 8 spheres in 64 dimensions each; where there is room for one alone, sizes must be given.
"""

from __future__ import annotations

from dataclasses import fields

from equipoise.spaces import SPACES, Space
from equipoise.types import UserError


def check_space(space: str | Space) -> None:
    if not isinstance(space, Space) and space not in SPACES:
        raise UserError(f"space must be a Space or one of {', '.join(SPACES)}, not {space!r}")


def space_for(space: str | Space, dim: int) -> Space:
    """The space of features of `dim` numbers."""
    if isinstance(space, Space):
        if space.dim != dim:
            raise UserError(
                f"features have {dim} numbers each, but points of the {type(space).__name__} {space.dim}; give a space "
                "as wide as the features"
            )
        return space
    kind = SPACES[space]
    sizes = {part.name: part.default for part in fields(kind)}
    if "m" not in sizes:
        return kind(dim)
    each = int(sizes["n"])  # type: ignore[arg-type]
    if dim % each or dim < 2 * each:  # a product of one sphere would be a sphere, which nobody asked for
        why = f"have room for one factor of {each} only" if dim == each else f"are not divided by {each} evenly"
        raise UserError(
            f"{dim} numbers {why}, so {space} needs its sizes; give space={kind.__name__}(n, m) with n·m = {dim}"
        )
    return kind(each, dim // each)  # type: ignore[call-arg]
