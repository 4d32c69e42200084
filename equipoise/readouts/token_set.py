"""A set of vectors per sample instead of one: each patch, or each word, through one linear map.

Yao et al. 2022, "FILIP: Fine-grained Interactive Language-Image Pre-Training", §3.1.

    vector = [W f_1 + b, ..., W f_L + b, 0, ..., 0]        f_j [w] features of patches or words

W [w, n], n and m of the space `token_sets`; places beyond the L real tokens are zero, which that space leaves out. No
class token is among them, but a causal text tower counts start and end among its words.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from equipoise.readouts.readout import Readout, Shared, real_tokens
from equipoise.spaces import Space, TokenSets
from equipoise.types import Features, UserError


class TokenSet(Readout):
    reads_tokens = True
    reads_classes = False

    @dataclass(frozen=True)
    class Config:
        cites: ClassVar[tuple[str, ...]] = ("yao2022filip",)

        def class_tokens(self, space: Space) -> int:
            return 1  # encoders have it even if nothing reads it

        def build(self, width: int, space: Space, tower: str) -> TokenSet:
            if not isinstance(space, TokenSets):
                raise UserError(
                    f"the readout token_set gives a set of vectors, but {type(space).__name__} has points of one; "
                    "set space.name to token_sets, or readout.name to class_token"
                )
            return TokenSet(width, space, tower)

        def shared(self, space: Space) -> None:
            return None

    def __init__(self, width: int, space: TokenSets, tower: str):
        super().__init__()
        self.tower, self.most = tower, space.m
        self.projection = nn.Linear(width, space.n)

    def forward(self, features: Features, shared: Shared | None = None) -> Tensor:
        tokens, mask = real_tokens(features, "a set of vectors")
        if tokens.shape[1] > self.most:
            raise UserError(
                f"the {self.tower} tower gives {tokens.shape[1]} tokens, but the space has room for {self.most}; "
                "set space.m to as many"
            )
        vectors = self.projection(tokens) * mask[..., None]
        if torch.jit.is_tracing():  # the width of a graph's texts is not known: fill up, then cut
            empty = vectors.new_zeros(vectors.shape[0], self.most, vectors.shape[2])
            return torch.cat([vectors, empty], dim=1)[:, : self.most].flatten(1)
        return F.pad(vectors, (0, 0, 0, self.most - tokens.shape[1])).flatten(1)
