"""How token features become a vector."""

from __future__ import annotations

from equipoise.readouts.class_token import ClassToken
from equipoise.readouts.class_tokens import ClassTokens
from equipoise.readouts.readout import Readout, ReadoutConfig
from equipoise.readouts.sparsemax import sparsemax

READOUTS: dict[str, type[ReadoutConfig]] = {
    "class_token": ClassToken.Config,
    "class_tokens": ClassTokens.Config,
}

__all__ = ["READOUTS", "ClassToken", "ClassTokens", "Readout", "ReadoutConfig", "sparsemax"]
