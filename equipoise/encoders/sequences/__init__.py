"""Encoders over sequences: from the measurements of one modality to one code per sample, by name."""

from __future__ import annotations

from equipoise.encoders.sequences.gru import GRU
from equipoise.encoders.sequences.mlp import MLP
from equipoise.encoders.sequences.sequence import SequenceConfig, SequenceEncoder, SequenceShape
from equipoise.encoders.sequences.transformer import SequenceTransformer

SEQUENCE_ENCODERS: dict[str, SequenceConfig | type[SequenceConfig]] = {
    "gru": GRU.Config,
    "transformer": SequenceTransformer.Config,
    "mlp": MLP.Config,
}

__all__ = [
    "GRU",
    "MLP",
    "SEQUENCE_ENCODERS",
    "SequenceConfig",
    "SequenceEncoder",
    "SequenceShape",
    "SequenceTransformer",
]
