"""What every model has, whatever it reads: a space, a logit scale, heads with their memories, and how points compare.

`Model` (`model.py`) adds towers of images and texts, `ModalModel` (`modal_model.py`) encoders of named modalities. They
add modules in an order of their own, which is that of the parameters in checkpoints and in the optimizer.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from equipoise.data.preprocess import Preprocess
from equipoise.data.tokenizer import CaptionTokenizer
from equipoise.heads import Head
from equipoise.models.logit_scale import LogitScale
from equipoise.spaces import Space
from equipoise.types import Embeddings


class AlignedModel(nn.Module):
    """The parts that all models share; no model by itself."""

    heads: nn.ModuleDict  # what objectives need beside points; the last but prompts to be added

    def __init__(
        self,
        space: Space,
        temperature: LogitScale,
        preprocess: Preprocess,
        tokens: CaptionTokenizer,
        bias: float | None,
    ):
        super().__init__()
        self.space, self.temperature = space, temperature.within(space)
        self.preprocess, self.tokenizer = preprocess, tokens
        self.logit_scale = self.temperature.parameter()
        self.logit_bias = None if bias is None else nn.Parameter(torch.tensor(bias))  # where the objective learns one

    def all_heads(self) -> list[Head]:
        return [head for head in self.heads.values() if isinstance(head, Head)]

    def update_memory(self, embeddings: Embeddings) -> None:
        """Let heads store what later batches need of this one: the whole batch, from all processes, after its loss."""
        for head in self.all_heads():
            head.update_memory(embeddings)

    def recall(self, needs: Sequence[str]) -> dict[str, Tensor]:
        """Those of the roles that heads remember of former batches."""
        recalled = (item for head in self.all_heads() for item in head.recall().items())
        return {role: points for role, points in recalled if role in needs}

    def clamp_(self) -> None:
        """Clamp the logit scale and the heads' parameters to their bounds; called after every optimizer step."""
        self.temperature.clamp_(self.logit_scale)
        for head in self.all_heads():
            head.clamp_()

    def memory(self) -> dict[str, Tensor]:
        """Buffers of the heads' memories by name: part of a run's state, not of the model's state_dict."""
        memories = ((name, head.memory()) for name, head in self.heads.items() if isinstance(head, Head))
        return {f"heads.{name}.{part}": tensor for name, parts in memories for part, tensor in parts.items()}

    @property
    def tokens(self) -> CaptionTokenizer:
        """The tokenizer, by the name of its recipe table."""
        return self.tokenizer

    @tokens.setter
    def tokens(self, tokenizer: CaptionTokenizer) -> None:
        self.tokenizer = tokenizer

    @property
    def log_scale(self) -> Tensor:
        """t, clamped to its bound; logits are exp(t)·similarity."""
        return self.temperature.bounded(self.logit_scale)

    def facts(self) -> dict[str, float]:
        """Numbers for the log beside the logit scale: the bias."""
        return {} if self.logit_bias is None else {"bias": self.logit_bias.item()}

    @property
    def device(self) -> torch.device:
        return self.logit_scale.device

    def similarity(self, images: Tensor, texts: Tensor) -> Tensor:
        """Similarities [N, M] of points [N, d] and [M, d]: larger is closer; the logit scale is not applied."""
        return self.space.similarity(images, texts)


class evaluating:
    """Context of evaluation mode (dropout off); restores the former mode."""

    def __init__(self, module: nn.Module):
        self.module, self.was_training = module, module.training

    def __enter__(self) -> None:
        self.module.eval()

    def __exit__(self, *_: object) -> None:
        self.module.train(self.was_training)


def count_parameters(model: nn.Module) -> int:
    return sum(p.numel() for p in model.parameters())
