"""What is known of a benchmark set: its task, where it must lie, which number is read, whose words its classes have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

RETRIEVAL, ZERO_SHOT, INSTANCES, COPIES = TASKS = ("retrieval", "zero-shot", "instances", "copies")
MAIN = {RETRIEVAL: "mean_recall", ZERO_SHOT: "acc1", INSTANCES: "medium_mAP", COPIES: "mAP"}


@dataclass(frozen=True)
class SetSpec:
    task: str  # one of TASKS
    folders: tuple[str, ...]  # below ROOT, the first that is there; a file too, for sets of one's own
    needs: str = ""  # what must lie there, for people
    main: str = ""  # the metric that is averaged over sets; empty: the task's
    classes: str = ""  # zero-shot: whose names and prompts (`class_words.py`); empty: those of the data
    folds: int = 1  # retrieval: parts that are ranked one by one
    captions: int = 5  # retrieval: of each picture, 0 for all
    annotations: str = ""  # retrieval: a file with ids, below ROOT; empty: those of the data
    relevance: Mapping[str, str] = field(default_factory=dict)  # retrieval: files below ROOT, by names of metrics
    grades: Mapping[str, str] = field(default_factory=dict)  # retrieval: CxC's files below ROOT, by kind
    shift_of: str = ""  # zero-shot: the set of which this one is a shift, for the table of robustness
    hub: str = ""  # a data set on the Hugging Face hub that --download fetches

    @property
    def metric(self) -> str:
        return self.main or MAIN[self.task]
