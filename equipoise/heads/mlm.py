"""Masked language modelling: hidden words predicted from the text tower's features at their places.

Devlin et al. 2019, BERT, §3.1 (Task 1); Li et al. 2022, "Supervision Exists Everywhere" (DeCLIP), §3.

    cost_i = Σ_{j hidden} -log softmax(W f_ij + b)_{word ij}        f_ij [w] the tower's features of word j of text i

Role words_cost [N], so that a batch may be split and concatenated anywhere. 15 % of the words are hidden
(`data/sample_views.py`). A bidirectional tower guesses from both sides; a causal one, as DeCLIP's, from what comes
before and the hidden place itself. Logits are computed for hidden words alone, in chunks, and again for
their gradient: never [N, L, V].
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from equipoise.data.source import ANSWERS, HIDDEN
from equipoise.heads.head import Head, Sizes, TowerOutputs
from equipoise.types import UserError

CHUNK = 2048  # words whose logits exist at the same time


class MLMHead(Head):
    roles: ClassVar[tuple[str, ...]] = ("words_cost",)
    reads_tokens: ClassVar[tuple[str, ...]] = ("text",)

    @dataclass(frozen=True)
    class Config:
        def build(self, sizes: Sizes) -> MLMHead:
            return MLMHead(sizes)

    def __init__(self, sizes: Sizes):
        super().__init__()
        self.words = nn.Linear(sizes.text_width, sizes.vocabulary)

    def forward(self, outputs: TowerOutputs) -> dict[str, Tensor]:
        tokens = outputs.features("text").tokens
        if tokens is None:
            raise UserError("words can be guessed by a text encoder that gives features of words alone; this has none")
        hidden, answers = (
            outputs.side(name)[:, -tokens.shape[1] :] for name in (HIDDEN, ANSWERS)
        )  # without class tokens
        costs = [
            self._chunk(*chunk) for chunk in zip(tokens[hidden].split(CHUNK), answers[hidden].split(CHUNK), strict=True)
        ]
        cost = torch.cat(costs)
        return {"words_cost": cost.new_zeros(len(tokens)).index_add(0, hidden.nonzero()[:, 0], cost)}

    def _chunk(self, features: Tensor, answers: Tensor) -> Tensor:
        if len(features) < CHUNK:
            return self._cost(features, answers)
        cost = checkpoint(self._cost, features, answers, use_reentrant=False)
        assert isinstance(cost, Tensor)
        return cost

    def _cost(self, features: Tensor, answers: Tensor) -> Tensor:
        logits = self.words(features)
        wide = logits.float() if logits.dtype in (torch.bfloat16, torch.float16) else logits
        return F.cross_entropy(wide, answers, reduction="none")
