"""Evidence on pairs by the ways of the field: what `clean.evidence` names beside `ratio` (ours) and `gmm`.

A new one: its file, one line here and in `data/keep/settings.py`, one reference, a test against its formula.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from torch import Tensor

from equipoise.analysis.evidence.clip_score import clip_score
from equipoise.analysis.evidence.crcl import crcl
from equipoise.analysis.evidence.gsc import gsc
from equipoise.analysis.evidence.judged import JudgedPairs
from equipoise.analysis.evidence.npc import npc
from equipoise.analysis.evidence.osa import osa
from equipoise.analysis.evidence.small_loss import small_loss

EVIDENCE: Mapping[str, Callable[[JudgedPairs], Tensor]] = {  # of each text [M], larger for pairs that look right
    "score": clip_score,
    "osa": osa,
    "npc": npc,
    "gsc": gsc,
    "crcl": crcl,
    "co_teaching": small_loss,
}

__all__ = ["EVIDENCE", "JudgedPairs"]
