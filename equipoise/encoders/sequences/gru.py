"""Gated recurrent unit over a sequence: the encoder of one modality in GMC.

Cho et al. 2014, "Learning Phrase Representations using RNN Encoder-Decoder", §2.3; Poklukar et al. 2022, "Geometric
Multimodal Contrastive Representation Learning" (GMC), and their code for CMU-MOSEI.

    h_t = GRU(x_t, h_{t-1});   code = W [h_1 ... h_L] + b        `readout = "flatten"`: all states, one after the other
    code = W h_last + b                                          "last"
    code = W mean_t h_t + b                                      "mean"

x [N, L, w] values, h_t [N, hidden]. A step that is not real leaves the state as it is and gives zeros. "flatten" is
GMC's (hidden 30, one layer, L = 50, d = 60): its map has weights for every place, so it is built for a fixed L, and
shorter sequences count as padded on the right.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor, nn
from torch.nn import functional as F

from equipoise.encoders.sequences.sequence import SequenceEncoder, SequenceShape, last_step, mean_of_steps
from equipoise.settings.bounds import bounded
from equipoise.types import UserError

READOUTS = ("flatten", "last", "mean")


class GRU(SequenceEncoder):
    @dataclass(frozen=True)
    class Config:
        cites: ClassVar[tuple[str, ...]] = ("cho2014gru", "poklukar2022gmc")

        hidden: int = bounded(30, 1, 2**16)
        layers: int = bounded(1, 1, 100)
        readout: str = READOUTS[0]

        def __post_init__(self) -> None:
            if self.readout not in READOUTS:
                raise UserError(f"readout must be one of {', '.join(READOUTS)}, not {self.readout!r}")

        def build(self, shape: SequenceShape, dim: int) -> GRU:
            return GRU(self, shape, dim)

    def __init__(self, config: Config, shape: SequenceShape, dim: int):
        super().__init__(shape, dim)
        self.config = config
        self.gru = nn.GRU(shape.width, config.hidden, config.layers, batch_first=True)
        self.out = nn.Linear(config.hidden * (shape.length if config.readout == "flatten" else 1), dim)

    def encode(self, values: Tensor, mask: Tensor) -> Tensor:
        codes: Tensor = self.out(self._read(self._states(values, mask), mask))
        return codes

    def _states(self, values: Tensor, mask: Tensor) -> Tensor:
        """States [N, L, hidden]. Real steps are moved to the front, where none that is not real comes before them."""
        places = (~mask).int().argsort(dim=1, stable=True)[..., None]
        states, _ = self.gru(values.gather(1, places.expand_as(values)))
        back = states.new_zeros(states.shape).scatter(1, places.expand_as(states), states)
        return back.masked_fill(~mask[..., None], 0.0)

    def _read(self, states: Tensor, mask: Tensor) -> Tensor:
        if self.config.readout == "last":
            return last_step(states, mask)
        if self.config.readout == "mean":
            return mean_of_steps(states, mask)
        return F.pad(states, (0, 0, 0, self.shape.length - states.shape[1])).flatten(1)
