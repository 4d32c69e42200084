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
from equipoise.kernels import contrast
from equipoise.spaces import Space, by_class, geodesic_mix, hardness, pinned
from equipoise.targets import OfClasses, Target


@dataclass(frozen=True)
class ClassMix:
    """A batch of images [N, d] with their classes [N], and the points of all classes [C, d]."""

    image: Tensor
    pivots: Tensor
    labels: Tensor
    space: Space
    impl: str = "auto"

    def __call__(self, term: str, lam: float, log_scale: Tensor | float) -> Tensor:
        """One of m2, v, l and vl."""
        how: dict[str, Callable[[float, Tensor | float], Tensor]] = {
            "m2": self.m2,
            "v": self.v,
            "l": self.l,
            "vl": self.vl,
        }
        return how[term](lam, log_scale)

    def m2(self, lam: float, log_scale: Tensor | float) -> Tensor:
        mixed, labels = self._mixed(lam), self.labels
        to_pivots = by_class(self.image, mixed, labels[:, None], self.pivots, self._every, space=self.space)
        to_images = by_class(self._text, mixed, labels[:, None], self.image, labels, space=self.space)
        found = self._compared(*to_pivots, OfClasses(labels, self._every), log_scale)
        return (found + self._compared(*to_images, OfClasses(labels, labels), log_scale)) / 2

    def v(self, lam: float, log_scale: Tensor | float) -> Tensor:
        present, mixed = self.labels.unique(), self._with_mirror(self.image, lam)
        halves = []
        for classes, direction in ((self._every, "rows"), (present, "cols")):  # a class that is not here has no images
            there = by_class(mixed, self.image, self._both, self.pivots[classes], classes, space=self.space)
            halves.append(self._compared(*there, self._target(classes, lam), log_scale, direction))
        return (halves[0] + halves[1]) / 2

    def l(self, lam: float, log_scale: Tensor | float) -> Tensor:  # noqa: E743 the paper's name
        mixed = self._with_mirror(self._text, lam)
        there = by_class(mixed, self._text, self._both, self.image, self.labels, space=self.space)
        return self._compared(*there, self._target(self.labels, lam), log_scale, "both")

    def vl(self, lam: float, log_scale: Tensor | float) -> Tensor:
        text, labels = self._text, self.labels
        own = self.space.pairwise(self._with_mirror(self.image, lam), self._with_mirror(text, lam))
        to_pivots = pinned(self.image, self.pivots, [(labels, own)], space=self.space)
        to_images = pinned(text, self.image, [(torch.arange(len(text), device=text.device), own)], space=self.space)
        found = self._compared(*to_pivots, OfClasses(labels, self._every), log_scale)
        return (found + self._compared(*to_images, OfClasses(labels, labels), log_scale)) / 2

    def above(self, lam: float) -> dict[str, float]:
        """The share of classes that are closer to a mix than its image to its own class (as Fig. 12-15)."""
        own = self.space.pairwise(self.image, self._text)
        found = hardness(self._mixed(lam), self.pivots, space=self.space, positive=own, match=self.labels)
        return {"class": float(found.above.mean())}

    @property
    def _text(self) -> Tensor:
        """The point of each image's class [N, d]."""
        return self.pivots[self.labels]

    @property
    def _every(self) -> Tensor:
        return torch.arange(len(self.pivots), device=self.labels.device)

    @property
    def _both(self) -> Tensor:
        """The classes of each image and of its mirror image [N, 2]."""
        return torch.stack([self.labels, self.labels.flip(0)], dim=1)

    def _mixed(self, lam: float) -> Tensor:
        return geodesic_mix(self.image, self._text, lam, space=self.space)

    def _with_mirror(self, points: Tensor, lam: float) -> Tensor:
        return geodesic_mix(points, points.flip(0), lam, space=self.space)

    def _target(self, cols: Tensor, lam: float) -> Target:
        return OfClasses(self.labels, cols, self.labels.flip(0), lam)

    def _compared(
        self,
        rows: Tensor,
        cols: Tensor,
        space: Space,
        target: Target,
        log_scale: Tensor | float,
        direction: str = "rows",
    ) -> Tensor:
        form = CrossEntropy(direction=direction)
        return contrast(rows, cols, space=space, target=target, form=form, log_scale=log_scale, impl=self.impl)
