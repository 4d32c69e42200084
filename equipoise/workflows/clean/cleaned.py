"""What was decided on the captions of a data set, and the sentence that says so."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from equipoise.workflows.clean.probability import Evidence


@dataclass(frozen=True)
class Cleaned:
    """What was decided."""

    evidence: Evidence  # of the first round, from which the share of wrong captions is read
    right: np.ndarray  # [M] P(right)
    keep: np.ndarray  # [M] bool
    records: int
    truth: dict[str, float]
    instead: np.ndarray | None = None  # [M] the caption that takes the place of each, or -1
    page: Path | None = None  # for curators
    gone: np.ndarray | None = None  # [M] bool: its picture cannot be read, so it is dropped
    left: float | None = None  # share of what is kept that is wrong all the same, where that can be told

    @property
    def images_gone(self) -> int:
        return 0 if self.gone is None else len(np.unique(self.evidence.owners[self.gone]))

    @property
    def images_left(self) -> int:
        return len(np.unique(self.evidence.owners[self.keep]))

    @property
    def sentence(self) -> str:
        low, high = self.evidence.interval
        total, kept = len(self.keep), int(self.keep.sum())
        return (
            f"Of {total:,} captions of {self.records:,} images, {self.evidence.share:.1%} look wrong ({low:.1%} to "
            f"{high:.1%} at 95%); {kept:,} captions of {self.images_left:,} images are kept, "
            f"{total - kept:,} captions are dropped{self._gone}{self._rematched}.{self._left}"
        )

    @property
    def _left(self) -> str:
        return "" if self.left is None else f" About {self.left:.1%} of what is kept is wrong all the same."

    @property
    def _gone(self) -> str:
        if not self.images_gone:
            return ""
        return f", those of {self.images_gone:,} images for want of a picture that can be read"

    @property
    def _rematched(self) -> str:
        if self.instead is None:
            return ""
        images = len(np.unique(self.evidence.owners[self.instead >= 0]))
        return f"; {images:,} images that lost theirs get the captions of another that fit"
