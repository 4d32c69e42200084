"""What a recipe may say about evaluation."""

from __future__ import annotations

from dataclasses import dataclass

from equipoise.settings.bounds import bounded
from equipoise.types import UserError

FIVE = 5  # captions of an image, as MSCOCO and Flickr have them and papers rank them
FEATURES = ("points", "weights")
COPIES = ("matches", "misses")
AVERAGES = ("similarity", "embedding")
MAPS = ("pca", "umap")


@dataclass(frozen=True)
class Evaluation:
    features: str = "points"  # or weights: the shares of a code book's codes, once a run is over
    captions: int = bounded(-1, -1, 2**31 - 1)  # ranked per image: 0 all, -1 five, of scenes one
    folds: int = 1  # parts of equal size that are ranked one by one in `retrieval`: 5 makes COCO 1K of COCO 5K
    relevance: str = ""  # a file of what is relevant to what (docs/evaluation.md), for mAP@R in `retrieval`
    annotations: str = ""  # the file of MSCOCO's or Karpathy's form with the ids that `relevance` means
    rerank: int = 0  # first candidates of each query that `two_stage` judges; 0: 32, or all where there are fewer
    copies: str = "matches"  # what equal pictures and captions are to each other in `retrieval`; misses: labels alone
    average: str = "similarity"  # zero-shot: average similarities over prompts, or their embeddings
    map: str = "pca"  # of the embedding, in the report of a run: or umap, where umap-learn is installed
    batch_size: int = 256  # images encoded at once
    chunk: int = 1024  # queries ranked at once

    def __post_init__(self) -> None:
        if self.features not in FEATURES:
            raise UserError(f"features must be one of {', '.join(FEATURES)}, not {self.features!r}")
        if self.average not in AVERAGES:
            raise UserError(f"average must be one of {', '.join(AVERAGES)}, not {self.average!r}")
        if self.copies not in COPIES:
            raise UserError(f"copies must be one of {', '.join(COPIES)}, not {self.copies!r}")
        if self.map not in MAPS:
            raise UserError(f"map must be one of {', '.join(MAPS)}, not {self.map!r}")
        if self.folds > 1 and self.relevance:
            raise UserError("folds are ranked by labelled pairs alone; leave out evaluation.folds or .relevance")
        for name, least in (("captions", -1), ("folds", 1), ("rerank", 0), ("batch_size", 1), ("chunk", 1)):
            if getattr(self, name) < least:
                raise UserError(f"{name} must be at least {least}, not {getattr(self, name)}")

    def captions_of(self, judged: bool) -> int:
        """Captions of each image that are ranked, 0 for all; `judged`: of a source that judges any caption, whose
        captions of one image are levels of detail."""
        if self.captions >= 0:
            return self.captions
        return 1 if judged else FIVE

    @property
    def cites(self) -> tuple[str, ...]:
        """References of all evaluations."""
        from equipoise.evaluation import EVALUATIONS  # deferred: evaluations read these settings

        drawn = ("mcinnes2018umap",) if self.map == "umap" else ()
        return (*(key for evaluation in EVALUATIONS.values() for key in evaluation.cites), *drawn)
