"""Multi-layer perceptron over one vector per sample, or over the mean of a sequence's real steps.

    x ← act(W x + b), `layers` - 1 times;   code = W x + b

x [N, w]. `normalise` puts a LayerNorm (Ba et al. 2016) without weights before it, for measurements of any scale;
dropout (Srivastava et al. 2014) follows every activation. The order of steps does not matter to it; `gru` and
`transformer` read it.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from torch import Tensor, nn

from equipoise.encoders.sequences.sequence import SequenceEncoder, SequenceShape, mean_of_steps
from equipoise.encoders.transformer import activation
from equipoise.settings.bounds import bounded


class MLP(SequenceEncoder):
    @dataclass(frozen=True)
    class Config:
        hidden: int = bounded(64, 1, 2**16)
        layers: int = bounded(2, 1, 100)
        activation: str = "relu"
        dropout: float = bounded(0.0, 0.0, 0.999)
        normalise: bool = False

        def __post_init__(self) -> None:
            activation(self.activation)

        def build(self, shape: SequenceShape, dim: int) -> MLP:
            return MLP(self, shape, dim)

    def __init__(self, config: Config, shape: SequenceShape, dim: int):
        super().__init__(shape, dim)
        widths = [shape.width, *[config.hidden] * (config.layers - 1), dim]
        self.norm = nn.LayerNorm(shape.width, elementwise_affine=False) if config.normalise else nn.Identity()
        self.maps = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(widths))
        self.act, self.dropout = activation(config.activation), nn.Dropout(config.dropout)

    def encode(self, values: Tensor, mask: Tensor) -> Tensor:
        x = self.norm(mean_of_steps(values, mask))
        for number, linear in enumerate(self.maps, 1):
            x = linear(x)
            x = x if number == len(self.maps) else self.dropout(self.act(x))
        return x
