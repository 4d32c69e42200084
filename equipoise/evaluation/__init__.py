"""A model measured: one evaluation a file. A new one: the file, one line here, one reference (`evaluator.py`)."""

from __future__ import annotations

from equipoise.evaluation.captioning import Captioning
from equipoise.evaluation.codes import Codes
from equipoise.evaluation.consistency_score import ConsistencyScore
from equipoise.evaluation.evaluator import Evaluator
from equipoise.evaluation.geometry import Geometry
from equipoise.evaluation.matching import Matching
from equipoise.evaluation.modal_retrieval import ModalRetrieval
from equipoise.evaluation.retrieval import Retrieval
from equipoise.evaluation.shifts import Shifts
from equipoise.evaluation.subsets import Subsets
from equipoise.evaluation.two_stage import TwoStage
from equipoise.evaluation.zeroshot import ZeroShot

EVALUATIONS: dict[str, Evaluator] = {
    "retrieval": Retrieval(),
    "two_stage": TwoStage(),
    "matching": Matching(),
    "zero_shot": ZeroShot(),
    "consistency": ConsistencyScore(),
    "shifts": Shifts(),
    "geometry": Geometry(),
    "codes": Codes(),
    "captioning": Captioning(),
    "subsets": Subsets(),
    "modal_retrieval": ModalRetrieval(),
}

__all__ = ["EVALUATIONS"]
