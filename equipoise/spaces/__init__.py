"""Spaces that vectors live in, and what "close" means in them. A new one: its file, one line here, one reference."""

from __future__ import annotations

from equipoise.spaces.euclidean import Euclidean
from equipoise.spaces.geodesic_mix import geodesic_mix
from equipoise.spaces.hard_negatives import Hardness, hardness
from equipoise.spaces.product_sphere import ProductSphere
from equipoise.spaces.scorer import ScoredPoints, Scorer
from equipoise.spaces.scorers.class_scores import ClassScores, scores_by_class
from equipoise.spaces.scorers.overridden import OverriddenScores, override_scores
from equipoise.spaces.scorers.toward_mix import TowardMix
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
    "ClassScores",
    "Euclidean",
    "Hardness",
    "OverriddenScores",
    "ProductSphere",
    "ScoredPoints",
    "Scorer",
    "Space",
    "Sphere",
    "TokenSets",
    "TowardMix",
    "geodesic_mix",
    "hardness",
    "override_scores",
    "scores_by_class",
]
