"""MulT: every modality looks at every other one, and remembers.

Tsai et al. 2019, "Multimodal Transformer for Unaligned Multimodal Language Sequences", §3, and their code; with the
sizes of Poklukar et al. 2022 (GMC) for CMU-MOSEI, whose joint encoder it is.

    x_m = W_m v_m                                                   1 × 1 convolution without bias, to `width`
    h_m = memory_m([cross_{o→m}(x_m, x_o) for every other o])       (`cross_modal.py`), L_m steps, (k - 1) · width wide
    code = residual head of [last real step of h_m, for every m]    (`residual.py`), k (k - 1) · width wide

v_m [N, L_m, w_m] the values of modality m of k; cross_{o→m} takes queries from m, keys and values from o. With k = 3
and width 30 that is six cross-modal transformers, three memories and 180 numbers into the head. The memories have 3
layers at least. Text is treated apart, as their code does: its input, too, passes the embedding dropout, and attention
to it and in memories is dropped where that to others is not (`dropped` names such modalities). Lengths may differ; the
last step is the last real one, and zeros where there is none. Their code leaves out W_m where w_m is `width` already.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor, nn

from equipoise.encoders.sequences.cross_modal import CrossModalTransformer, Dropouts
from equipoise.encoders.sequences.joint import JointEncoder, Steps
from equipoise.encoders.sequences.residual import ResidualHead
from equipoise.encoders.sequences.sequence import SequenceShape, last_step
from equipoise.settings.bounds import bounded
from equipoise.types import UserError


class MulT(JointEncoder):
    @dataclass(frozen=True)
    class Config:
        cites: ClassVar[tuple[str, ...]] = ("tsai2019mult", "poklukar2022gmc")

        width: int = bounded(30, 1, 2**16)  # of every step
        layers: int = bounded(5, 1, 1000)  # of attention from one modality to another
        memory_layers: int = bounded(3, 1, 1000)  # at least: memories have no fewer than `layers`
        heads: int = bounded(5, 1, 2**16)  # of attention; they divide the width
        future: bool = True  # keep steps from looking at later ones
        attention_dropout: float = bounded(0.1, 0.0, 0.999)  # in memories, and where keys are of `dropped` modalities
        hidden_dropout: float = bounded(0.1, 0.0, 0.999)  # behind ReLUs
        residual_dropout: float = bounded(0.1, 0.0, 0.999)  # behind each block
        embedding_dropout: float = bounded(0.25, 0.0, 0.999)  # of the inputs of `dropped` modalities
        output_dropout: float = bounded(0.0, 0.0, 0.999)  # in the residual head
        dropped: tuple[str, ...] = ("text",)  # modalities whose attention is dropped out

        def __post_init__(self) -> None:
            if self.width % self.heads:
                raise UserError(f"width {self.width} cannot be split into {self.heads} heads; choose heads that divide")

        def build(self, shapes: Mapping[str, SequenceShape], dim: int) -> MulT:
            return MulT(self, shapes, dim)

    def __init__(self, config: Config, shapes: Mapping[str, SequenceShape], dim: int):
        super().__init__(shapes, dim)
        self.config, wide = config, (len(self.shapes) - 1) * config.width
        plain = Dropouts(0.0, config.hidden_dropout, config.residual_dropout, config.embedding_dropout)
        remembering = replace(plain, attention=config.attention_dropout)

        def cross(other: str) -> nn.Module:
            dropouts = remembering if other in config.dropped else plain
            return CrossModalTransformer(config.width, config.layers, config.heads, dropouts, config.future)

        def memory() -> nn.Module:
            layers = max(config.layers, config.memory_layers)
            return CrossModalTransformer(wide, layers, config.heads, remembering, config.future)

        names = tuple(self.shapes)  # prefixed below: a module may not be called as a method of ModuleDict is
        self.input_dropout = nn.Dropout(config.embedding_dropout)
        self.maps = nn.ModuleDict(
            {f"of_{name}": nn.Linear(shape.width, config.width, bias=False) for name, shape in self.shapes.items()}
        )
        self.cross = nn.ModuleDict(
            {f"to_{name}": nn.ModuleDict({f"from_{o}": cross(o) for o in names if o != name}) for name in names}
        )
        self.memories = nn.ModuleDict({f"of_{name}": memory() for name in names})
        self.head = ResidualHead(len(names) * wide, dim, config.output_dropout)

    def blocks(self) -> Iterable[nn.Module]:
        return [module for module in self.modules() if isinstance(module, CrossModalTransformer)]

    def encode(self, steps: Steps) -> Tensor:
        low = {name: (self._mapped(name, values), mask) for name, (values, mask) in steps.items()}
        last = [last_step(self._remembered(name, low), mask) for name, (_, mask) in low.items()]
        codes: Tensor = self.head(torch.cat(last, dim=1))
        return codes

    def _mapped(self, name: str, values: Tensor) -> Tensor:
        values = self.input_dropout(values) if name in self.config.dropped else values
        mapped: Tensor = self.maps[f"of_{name}"](values)
        return mapped

    def _remembered(self, name: str, low: Steps) -> Tensor:
        """What a modality has found in the others, [N, L, (k - 1) · width]."""
        own, mask = low[name]
        looking = self.cross[f"to_{name}"]
        assert isinstance(looking, nn.ModuleDict)
        found = [looking[f"from_{other}"](own, mask, *low[other]) for other in low if other != name]
        remembered: Tensor = self.memories[f"of_{name}"](torch.cat(found, dim=2), mask)
        return remembered
