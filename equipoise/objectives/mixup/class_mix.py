"""Mixups of images with the prompts of their classes: m²-, V-, L- and VL-Mix where captions are classes.

Oh et al. 2023, "Geodesic Multi-Modal Mixup for Robust Fine-Tuning", App. A.2: "we mix the in-batch image embedding and
text embedding and contrast the resulting mixed embedding with image and pivot embedding, respectively".

    T_i = T_{y_i};   i' = N-1-i;   Ĩ_i = m_λ(I_i, I_i'),   T̃_i = m_λ(T_i, T_i'),   M_i = m_λ(I_i, T_i)

    m²   ½ [ mean_i CE_i(A) + mean_i CE_i(B) ]   A_ic = s(I_i, T_c) if c = y_i   else s(M_i, T_c)    target c = y_i
                                                 B_ij = s(T_i, I_j) if y_j = y_i else s(M_i, I_j)    target y_j = y_i
    V    images among pivots, both ways          Z_ic = s(Ĩ_i, T_c) if c ∈ {y_i, y_i'} else s(I_i, T_c)
    L    texts among images, both ways           Z_ij = s(T̃_i, I_j) if y_j ∈ {y_i, y_i'} else s(T_i, I_j)
                                                 targets of V and L: λ for the class y_i, 1-λ for y_i'
    VL   ½ [ mean_i CE_i(P) + mean_i CE_i(Q) ]   P_ic = s(Ĩ_i, T̃_i) if c = y_i else s(I_i, T_c)      target c = y_i
                                                 Q_ij = s(T̃_i, Ĩ_i) if j = i   else s(T_i, I_j)      target y_j = y_i

I [N, d] images, y [N] their classes, T [C, d] pivots. Matches of one class share evenly (`targets/class_matches.py`).
What belongs together is not mixed in m², as in the pseudo-code (App. B), the one of three readings in which mixes are
contrasted with points (`m2mix.py`); the other three keep its negatives. The paper writes down none of this for classes:
each is `m2mix.py` or `unimodal.py` with "the same pair" read as "the same class", and equals it where the batch holds
every class once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from equipoise.forms import CrossEntropy
from equipoise.kernels import Scoring
from equipoise.objectives.mixup.unimodal import mirror_mix
from equipoise.spaces import ScoredPoints, Space, geodesic_mix, hardness, override_scores, scores_by_class
from equipoise.targets import ClassMatches, Target


@dataclass(frozen=True)
class ClassMix:
    """A batch of images [N, d] with their classes [N], and the points of all classes [C, d]."""

    image: Tensor
    pivots: Tensor
    labels: Tensor
    impl: str = "auto"

    def __call__(self, term: str, lam: float, scoring: Scoring) -> Tensor:
        """One of m2, v, l and vl."""
        terms: dict[str, Callable[[float, Scoring], Tensor]] = {
            "m2": self.m2,
            "v": self.v,
            "l": self.l,
            "vl": self.vl,
        }
        return terms[term](lam, scoring)

    def m2(self, lam: float, scoring: Scoring) -> Tensor:
        mixed, labels, space = self._mixed(lam, scoring.space), self.labels, scoring.space
        to_pivots = scores_by_class(self.image, mixed, labels[:, None], self.pivots, self._all_classes, of=space)
        to_images = scores_by_class(self._text, mixed, labels[:, None], self.image, labels, of=space)
        by_image = self._contrast(to_pivots, ClassMatches(labels, self._all_classes), scoring)
        return (by_image + self._contrast(to_images, ClassMatches(labels, labels), scoring)) / 2

    def v(self, lam: float, scoring: Scoring) -> Tensor:
        present, mixed = self.labels.unique(), mirror_mix(self.image, lam, scoring.space)
        halves = []
        for classes, direction in ((self._all_classes, "rows"), (present, "cols")):  # absent classes have no images
            scored = scores_by_class(mixed, self.image, self._both, self.pivots[classes], classes, of=scoring.space)
            halves.append(self._contrast(scored, self._target(classes, lam), scoring, direction))
        return (halves[0] + halves[1]) / 2

    def l(self, lam: float, scoring: Scoring) -> Tensor:  # noqa: E743 the paper's name
        mixed = mirror_mix(self._text, lam, scoring.space)
        scored = scores_by_class(mixed, self._text, self._both, self.image, self.labels, of=scoring.space)
        return self._contrast(scored, self._target(self.labels, lam), scoring, "both")

    def vl(self, lam: float, scoring: Scoring) -> Tensor:
        text, labels, space = self._text, self.labels, scoring.space
        own = space.pairwise(mirror_mix(self.image, lam, space), mirror_mix(text, lam, space))
        diagonal = torch.arange(len(text), device=text.device)
        to_pivots = override_scores(self.image, self.pivots, [(labels, own)], of=space)
        to_images = override_scores(text, self.image, [(diagonal, own)], of=space)
        by_image = self._contrast(to_pivots, ClassMatches(labels, self._all_classes), scoring)
        return (by_image + self._contrast(to_images, ClassMatches(labels, labels), scoring)) / 2

    def above(self, lam: float, space: Space) -> dict[str, float]:
        """The share of classes that are closer to a mix than its image to its own class (as Fig. 12-15)."""
        own = space.pairwise(self.image, self._text)
        found = hardness(self._mixed(lam, space), self.pivots, space=space, positive=own, match=self.labels)
        return {"class": float(found.above.mean())}

    @property
    def _text(self) -> Tensor:
        """The point of each image's class [N, d]."""
        return self.pivots[self.labels]

    @property
    def _all_classes(self) -> Tensor:
        return torch.arange(len(self.pivots), device=self.labels.device)

    @property
    def _both(self) -> Tensor:
        """The classes of each image and of its mirror image [N, 2]."""
        return torch.stack([self.labels, self.labels.flip(0)], dim=1)

    def _mixed(self, lam: float, space: Space) -> Tensor:
        return geodesic_mix(self.image, self._text, lam, space=space)

    def _target(self, cols: Tensor, lam: float) -> Target:
        return ClassMatches(self.labels, cols, self.labels.flip(0), lam)

    def _contrast(self, scored: ScoredPoints, target: Target, scoring: Scoring, direction: str = "rows") -> Tensor:
        rows, cols, scorer = scored
        form = CrossEntropy(direction=direction)
        return scoring.contrast(rows, cols, scorer=scorer, target=target, form=form, impl=self.impl)
