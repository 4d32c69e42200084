"""Encoders over sequences, by name: from the measurements of one modality, or of several, to one code per sample."""

from __future__ import annotations

from equipoise.encoders.sequences.concat import Concat
from equipoise.encoders.sequences.gru import GRU
from equipoise.encoders.sequences.joint import JointConfig, JointEncoder
from equipoise.encoders.sequences.mlp import MLP
from equipoise.encoders.sequences.mult import MulT
from equipoise.encoders.sequences.residual import ResidualHead
from equipoise.encoders.sequences.sequence import SequenceConfig, SequenceEncoder, SequenceShape
from equipoise.encoders.sequences.transformer import SequenceTransformer

SEQUENCE_ENCODERS: dict[str, SequenceConfig | type[SequenceConfig]] = {
    "gru": GRU.Config,
    "transformer": SequenceTransformer.Config,
    "mlp": MLP.Config,
}

JOINT_ENCODERS: dict[str, JointConfig | type[JointConfig]] = {
    "mult": MulT.Config,
    "concat": Concat.Config,
}

__all__ = [
    "GRU",
    "JOINT_ENCODERS",
    "MLP",
    "SEQUENCE_ENCODERS",
    "Concat",
    "JointConfig",
    "JointEncoder",
    "MulT",
    "ResidualHead",
    "SequenceConfig",
    "SequenceEncoder",
    "SequenceShape",
    "SequenceTransformer",
]
