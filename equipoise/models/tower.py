"""One tower of a model: an encoder, its readout, and the way to points of the space.

inputs --encoder--> Features --readout--> vectors --space.project, shift--> points
"""

from __future__ import annotations

import torch
from torch import Tensor

from equipoise.encoders.encoder import Encoder, ImageEncoder, TextEncoder
from equipoise.models.embedding_shift import EmbeddingShift
from equipoise.readouts import Readout, Shared
from equipoise.readouts.readout import real_tokens
from equipoise.spaces import Space
from equipoise.types import Features, Lengths


class Tower:
    """Holds no parameters of its own: they are the model's, whose state_dict names them."""

    def __init__(
        self,
        name: str,
        encoder: Encoder,
        readout: Readout,
        shared: Shared | None,
        space: Space,
        shift: EmbeddingShift | None,
    ):
        self.name, self.encoder, self.readout, self.shared = name, encoder, readout, shared  # name: image or text
        self.space, self.shift = space, shift

    def features(self, *inputs: Tensor, with_tokens: bool, lengths: Lengths | None = None) -> Features:
        """Encoder output; without tokens it may be class tokens alone, which saves work. `lengths` are those of the
        mask among the inputs, where they are known."""
        packs = isinstance(self.encoder, TextEncoder) and self.encoder.takes_lengths
        known = {"lengths": lengths} if packs and lengths is not None else {}
        features: Features = self.encoder(*inputs, classes_only=not with_tokens, **known)
        return features

    def vectors(self, features: Features) -> Tensor:
        """Readout output [N, d], before the space projects it."""
        return widened(self.readout(features, self.shared))

    def project(self, vectors: Tensor) -> Tensor:
        """Points of the space [N, d], shifted where the model has an embedding shift."""
        points = self.space.project(vectors)
        return points if self.shift is None else self.shift(points, self.name, self.space)

    def read(self, features: Features) -> Tensor:
        """Points [N, d] of encoder output."""
        return self.project(self.vectors(features))

    def sequence(self, features: Features) -> tuple[Tensor, Tensor]:
        """All that the encoder gives, class tokens first [N, m + L, w], and which of it is real [N, m + L]."""
        tokens, mask = self._normed(features)
        real = mask.new_ones(len(mask), features.classes.shape[1])
        return torch.cat([features.classes, tokens.to(features.classes.dtype)], 1), torch.cat([real, mask], 1)

    def token_points(self, features: Features) -> tuple[Tensor, Tensor]:
        """The point of every patch or word, read as if it were all of its sample [N, L, d], and which are real."""
        tokens, mask = self._normed(features)
        alone = tokens.flatten(0, 1)[:, None]
        every = features.classes.shape[1]
        single = Features(alone.expand(-1, every, -1), alone, torch.ones_like(mask.flatten()[:, None]))
        return self.read(single).unflatten(0, tokens.shape[:2]), mask

    def _normed(self, features: Features) -> tuple[Tensor, Tensor]:
        tokens, mask = real_tokens(features, "the objective")
        return (self.encoder.normed(tokens) if isinstance(self.encoder, ImageEncoder) else tokens), mask

    def points(self, *inputs: Tensor, lengths: Lengths | None = None) -> Tensor:
        """Points [N, d] of encoder input, by the tokens that the readout reads and no more."""
        return self.read(self.features(*inputs, with_tokens=self.readout.reads_tokens, lengths=lengths))


def widened(vectors: Tensor) -> Tensor:
    """Half-precision vectors as float32, others as they are: points are kept in float32 at least."""
    return vectors.float() if vectors.dtype in {torch.bfloat16, torch.float16} else vectors
