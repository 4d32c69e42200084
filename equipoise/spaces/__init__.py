"""Where vectors live and what "close" means. A new space: one file, one line here, one reference."""

from __future__ import annotations

from equipoise.spaces.euclidean import Euclidean
from equipoise.spaces.geodesic_mix import geodesic_mix
from equipoise.spaces.hard_negatives import Hardness, hardness
from equipoise.spaces.product_sphere import ProductSphere
from equipoise.spaces.scorers.by_class import ByClass, by_class
from equipoise.spaces.scorers.pinned import Pinned, pinned
from equipoise.spaces.scorers.toward_mix import PartWay
from equipoise.spaces.space import Space
from equipoise.spaces.sphere import Sphere
from equipoise.spaces.token_sets import TokenSets

SPACES: dict[str, type[Space]] = {
    "sphere": Sphere,
    "euclidean": Euclidean,
    "product_sphere": ProductSphere,
    "token_sets": TokenSets,
}

__all__ = [
    "SPACES",
    "ByClass",
    "Euclidean",
    "Hardness",
    "PartWay",
    "Pinned",
    "ProductSphere",
    "Space",
    "Sphere",
    "TokenSets",
    "by_class",
    "geodesic_mix",
    "hardness",
    "pinned",
]
