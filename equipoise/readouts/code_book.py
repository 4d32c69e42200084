"""A code book that both towers share: a sample is a weighted sum of a few of its C codes, "finite discrete tokens".

Chen et al. 2023, "Revisiting Multimodal Representation in Contrastive Learning: From Patch and Token Embeddings to
Finite Discrete Tokens", Eq. 4-10.

    q_j = projection(token_j)                        one projection per tower, patches or words, no class token
    r_c = scale/√d · max_{j real} <q_j, c_c>         (4, 6); or the mean
    w   = sparsemax(r)                               (8); or softmax (5, 7)
    vector = Σ_c w_c c_c                             (9, 10); the space projects it

c [C, d] codes, d the dimension of the space, N(0, 1) at the start, trained and decayed as other matrices.
The paper has no scale and one layer, Linear and GELU (`projection = "one_layer"`). The authors' code has LayerNorm,
Linear, GELU, LayerNorm, Linear and divides by √d and by a further 1,000, as here. The scale decides how many codes are
active; 1 does not learn at all, see docs/codes.md for what was tried. `active` finds it instead, by the share of codes
that are to be active when a run starts (`models/code_scale.py`). Their code sets the relevance of padding to 0
instead of leaving it out, so that no code's relevance to a text is below 0: `padding = "zero"` does so for every text
(theirs spares one that fills the whole context).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from equipoise.ops.max_relevance import pooled_relevance, pooled_relevance_at_once
from equipoise.ops.sparsemax import sparsemax, sparsemax_by_sorting
from equipoise.readouts.codebook_state import CodeBook
from equipoise.readouts.query_map import PROJECTIONS, query_map
from equipoise.readouts.readout import Readout, Shared, real_tokens
from equipoise.settings.bounds import bounded
from equipoise.spaces import Space
from equipoise.types import Features, UserError

SETTINGS = {
    "pooling": ("max", "mean"),
    "activation": ("sparsemax", "softmax"),
    "projection": PROJECTIONS,
    "padding": ("out", "zero"),
}


class CodeBookReadout(Readout):
    """One tower's projection of tokens to queries, and their relevance, shares and weighted sum."""

    reads_tokens = True
    reads_classes = False

    @dataclass(frozen=True)
    class Config:
        cites: ClassVar[tuple[str, ...]] = ("chen2023fdt", "martins2016sparsemax")

        codes: int = bounded(16_384, 1, 2**24)  # in the book
        scale: float = 0.001  # of relevance, multiplied by 1/√d
        pooling: str = "max"  # of relevance over tokens: max, mean
        activation: str = "sparsemax"  # sparsemax, softmax
        projection: str = "two_layers"  # of tokens to queries: two_layers, one_layer
        padding: str = "out"  # out (left out), zero (its relevance is 0)
        active: float = bounded(0.0, 0, 1)  # share of the codes that are active at the start of a run; 0: by `scale`

        def __post_init__(self) -> None:
            for name, known in SETTINGS.items():
                if getattr(self, name) not in known:
                    raise UserError(f"{name} must be one of {', '.join(known)}, not {getattr(self, name)!r}")
            if self.codes < 2:
                raise UserError(
                    f"codes is {self.codes}, but with fewer than 2 every sample is the same; give thousands"
                )
            if not 0 < self.scale < math.inf:
                raise UserError(f"scale must be positive, not {self.scale}")
            if self.active and self.activation != "sparsemax":
                raise UserError(
                    "active is a share of codes with a share, but under softmax all have one; set activation to "
                    "sparsemax, or active to 0"
                )
            if not 0 <= self.active < 1:
                raise UserError(f"active must be in [0, 1), not {self.active}; 0 goes by scale")
            if self.padding == "zero" and self.pooling != "max":
                raise UserError(
                    "padding zero is a floor under the largest relevance; set pooling to max, or padding to out"
                )

        def class_tokens(self, space: Space) -> int:
            return 1  # encoders have it even if nothing reads it

        def build(self, width: int, space: Space, tower: str) -> CodeBookReadout:
            return CodeBookReadout(self, width, space.dim, tower)

        def shared(self, space: Space) -> CodeBook:
            return CodeBook(self.codes, space.dim, scaled=bool(self.active))

    def __init__(self, config: Config, width: int, dim: int, tower: str):
        super().__init__()
        self.config, self.tower, self.scale = config, tower, config.scale / math.sqrt(dim)
        self.projection = query_map(width, dim, config.projection)

    def forward(self, features: Features, shared: Shared | None = None) -> Tensor:
        assert isinstance(shared, CodeBook)
        weights = self.weights(features, shared)
        if self.training and torch.is_grad_enabled():
            shared.note(self.tower, weights.detach())
        with torch.autocast(weights.device.type, enabled=False):
            return weights @ shared.codes

    def weights(self, features: Features, book: CodeBook) -> Tensor:
        """Shares of all codes in each sample [N, C]."""
        return self.shares(self.relevance(features, book))

    def shares(self, relevance: Tensor) -> Tensor:
        """Shares of codes [N, C] by relevance [N, C], in full precision: a share is a small difference of scores."""
        project = sparsemax_by_sorting if torch.jit.is_tracing() else sparsemax  # a graph has no loops
        with torch.autocast(relevance.device.type, enabled=False):
            return project(relevance) if self.config.activation == "sparsemax" else relevance.softmax(-1)

    def relevance(self, features: Features, book: CodeBook) -> Tensor:
        """Relevance of each code to each sample [N, C], pooled over its tokens."""
        queries, mask = self.queries(features, book)
        with torch.autocast(queries.device.type, enabled=False):
            return self._relevance(queries, mask, book.codes)

    def queries(self, features: Features, book: CodeBook) -> tuple[Tensor, Tensor]:
        """Scaled queries [N, P, d] and the mask of real tokens [N, P]: <q, c> is the relevance of a code to a single
        patch or word."""
        tokens, mask = real_tokens(features, "the code book")
        queries = self.projection(tokens).to(book.codes.dtype) * self.scale
        return queries if book.gain is None else queries * book.gain, mask

    def _relevance(self, queries: Tensor, mask: Tensor, codes: Tensor) -> Tensor:
        if self.config.pooling == "mean":  # of products, which is the product with the mean
            real = mask[..., None].to(queries.dtype)
            return (queries * real).sum(1) / real.sum(1) @ codes.T
        pooled = pooled_relevance_at_once if torch.jit.is_tracing() else pooled_relevance
        relevance = pooled(queries, mask, codes)
        return relevance.clamp(min=0) if self.config.padding == "zero" and self.tower == "text" else relevance
