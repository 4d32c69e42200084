"""Scoring: what turns two sets of points into logits, handed to every objective as one value.

logits = exp(log_scale) · space.similarity(rows, cols)  [+ bias, where the form learns one]
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from torch import Tensor

from equipoise.forms import Form
from equipoise.kernels.contrast import trusted_contrast
from equipoise.kernels.sharding.context import current_shards
from equipoise.spaces import Scorer, Space
from equipoise.targets import Target
from equipoise.targets.target import Gather
from equipoise.types import Batch, Embeddings


@dataclass(frozen=True)
class Scoring:
    space: Space
    log_scale: Tensor | float
    bias: Tensor | float | None = None

    def contrast(
        self,
        rows: Tensor,
        cols: Tensor,
        *,
        target: Target,
        form: Form,
        scorer: Scorer | None = None,
        impl: str = "auto",
    ) -> Tensor:
        """The loss of rows against columns (`contrast.py`), compared by `scorer` where it is not by the space."""
        space = self.space if scorer is None else scorer
        return trusted_contrast(
            rows, cols, space=space, target=target, form=form, log_scale=self.log_scale, bias=self.bias, impl=impl
        )

    def bind(self, target: Target, embeddings: Embeddings, batch: Batch | None) -> Target:
        """The target of this batch, whose guides are compared in the same space and at the same scale."""
        return target.bind(embeddings, batch, log_scale=self.log_scale, space=self.space)

    def gather(self) -> Gather | None:
        """Makes rows of all ranks from those here (all ranks call it together); None where they all are here."""
        shards = current_shards()
        return None if shards is None else shards.gather

    def without_bias(self, log_scale: Tensor | float | None = None) -> Scoring:
        """The same for forms that learn no bias, at another scale if one is given."""
        return replace(self, bias=None, log_scale=self.log_scale if log_scale is None else log_scale)
