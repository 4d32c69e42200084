"""What evidence is made of: a judge, the pairs it was shown, and the points it made of them."""

from __future__ import annotations

from dataclasses import dataclass

from equipoise.analysis.noise import Pairs
from equipoise.data.source import Source
from equipoise.models.model import Model


@dataclass(frozen=True)
class JudgedPairs:
    model: Model
    source: Source
    points: Pairs  # of all images and texts of the source, in its order
    seed: int  # of batches that are drawn
    learning_rate: float  # of the recipe, for evidence that takes a step

    @property
    def scale(self) -> float:
        """exp(t) of the judge."""
        return float(self.model.log_scale.detach().exp())
