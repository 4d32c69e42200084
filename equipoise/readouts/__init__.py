"""Readouts: from token features to one vector per sample."""

from __future__ import annotations

from equipoise.ops.sparsemax import sparsemax
from equipoise.readouts.class_tokens import ClassToken, ClassTokens
from equipoise.readouts.code_book import CodeBookReadout
from equipoise.readouts.codebook_state import CodeBook
from equipoise.readouts.pooled import Pooled
from equipoise.readouts.readout import Readout, ReadoutConfig, Shared
from equipoise.readouts.token_set import TokenSet

READOUTS: dict[str, type[ReadoutConfig]] = {
    "class_token": ClassToken.Config,
    "class_tokens": ClassTokens.Config,
    "code_book": CodeBookReadout.Config,
    "pooled": Pooled.Config,
    "token_set": TokenSet.Config,
}

__all__ = [
    "READOUTS",
    "ClassToken",
    "ClassTokens",
    "CodeBook",
    "CodeBookReadout",
    "Pooled",
    "Readout",
    "ReadoutConfig",
    "Shared",
    "TokenSet",
    "sparsemax",
]
