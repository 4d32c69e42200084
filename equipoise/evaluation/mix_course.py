"""Whether the mixups of a run could do what they are for: how hard their negatives were, and how much they counted.

Oh et al. 2023, "Geodesic Multi-Modal Mixup for Robust Fine-Tuning", App. C.4, Fig. 12-15, footnote 9. m²-Mix rests on a
precondition: that mixed negatives lie closer than the positive, nearly all of them in the paper's runs. Where they do
not, there is nothing for it to push away. And its weight falls as 1/epoch, which in few shots is 1/step.

    above     mean over the logged steps of the share of mixed negatives above the positive, of all sides
    weight    mean over the logged steps of the factor on all mixed terms
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from equipoise.evaluation.metrics import percent

ABOVE, WEIGHT = "mix/above_", "mix/weight"
HARD = 0.5  # of the mixed negatives: with fewer above the positive the precondition does not hold
LITTLE = 0.2  # of its weight: with less a mixup hardly counts


@dataclass(frozen=True)
class MixCourse:
    weight: float
    above: float | None  # None without m²-Mix

    def metrics(self) -> dict[str, float]:
        return {"mix/weight_mean": self.weight, **({} if self.above is None else {"mix/above_mean": self.above})}

    def warnings(self) -> list[str]:
        found = []
        if self.above is not None and self.above < HARD:
            found.append(
                f"{percent(self.above)} of the negatives that m²-Mix made were closer than the positive, on average; "
                "it rests on most being so (App. C.4 of its paper), so a comparison with runs without it decides little"
            )
        if self.weight < LITTLE:
            found.append(
                f"the mixups counted {percent(self.weight)} of their weight, on average, for it is divided by the "
                "number of the epoch and epochs are short; objective.per_epoch=false lets them count in full"
            )
        return found


def mix_course(records: Sequence[Mapping[str, float]]) -> MixCourse | None:
    """Reads the records of metrics.jsonl; None for a run without mixups."""
    mixed = [record for record in records if WEIGHT in record]
    if not mixed:
        return None
    above = [value for record in mixed for name, value in record.items() if name.startswith(ABOVE)]
    return MixCourse(float(np.mean([record[WEIGHT] for record in mixed])), float(np.mean(above)) if above else None)
