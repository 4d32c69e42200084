"""CLIPs to measure, ours and open_clip's alike, and the arithmetic of a training step."""

from __future__ import annotations

from dataclasses import dataclass

import torch

CONTEXT = 77


@dataclass(frozen=True)
class Sizes:
    image: int
    patch: int
    width: int
    layers: int
    heads: int
    text_width: int
    text_layers: int
    text_heads: int
    dim: int
    vocabulary: int = 49408
    context: int = CONTEXT

    @property
    def size(self) -> int:  # what a model asks a tokenizer for, besides the context
        return self.vocabulary

    def flops(self, lengths: torch.Tensor) -> float:
        """Of one step on texts of these lengths: 3 forward passes."""
        batch, patches = len(lengths), (self.image // self.patch) ** 2
        image = _blocks(torch.full((batch,), patches + 1), self.width, self.layers)
        text = _blocks(lengths, self.text_width, self.text_layers)
        ends = 6 * self.patch**2 * self.width * patches + 2 * self.dim * (self.width + self.text_width)
        return 3 * (image + text + batch * ends + 2 * batch * batch * self.dim)


def _blocks(lengths: torch.Tensor, width: int, layers: int) -> float:
    """Linear maps 12 w² a token, attention 2 w a pair of tokens, two operations each."""
    lengths = lengths.double()
    return layers * float(24 * width**2 * lengths.sum() + 4 * width * lengths.square().sum())


MODELS = {
    "small": Sizes(64, 16, 128, 4, 4, 128, 4, 4, 128, vocabulary=4096),
    "small-8": Sizes(64, 8, 128, 4, 4, 128, 4, 4, 128, vocabulary=4096),
    "ViT-B-32": Sizes(224, 32, 768, 12, 12, 512, 12, 8, 512),
    "ViT-B-16": Sizes(224, 16, 768, 12, 12, 512, 12, 8, 512),
}
