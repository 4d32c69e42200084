"""What stands beneath the sheet of suspects."""

from __future__ import annotations

import numpy as np
import pytest

from equipoise.analysis.noise import NoiseEstimate
from equipoise.workflows.audit.report import Verdict, wrong_legend

NONE = np.zeros(0)


def verdict(*knowing: bool) -> Verdict:
    reading = NoiseEstimate(0.375, (0.3, 0.45), 20.0, 15.0)
    each = len(knowing)
    return Verdict(
        [reading] * each, [reading] * each, [50] * each, [()] * each, 0.2, NONE, NONE, NONE, NONE, NONE, NONE, [], [],
        [0.9 if knows else 0.51 for knows in knowing], list(knowing),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("knowing", "read", "doubted"),
    [((True, True), True, False), ((True, False), True, True), ((False, False), False, True)],
)
def test_a_share_is_told_where_a_judge_can_tell(knowing, read, doubted):
    said = wrong_legend(verdict(*knowing))
    assert ("37.5% of all pairs look wrong" in said) == read
    assert ("cannot tell these pairs from shuffled ones" in said) == doubted
