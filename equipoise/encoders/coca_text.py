"""CoCa's text tower: causal, read at a class token that stands behind the words.

Yu et al. 2022, "CoCa: Contrastive Captioners are Image-Text Foundation Models", §3.2 (unimodal decoder).

    x = blocks([words + positions_0 ..., class + positions_L])         L the context: the class has a place of its own
    class = LN(x_class),  tokens = x_words                             no LN: the decoder of captions has its own

Words see what is before them, the class all words of its text. Padding is left out. open_clip's released weights were
trained with a mask that is shifted by one place (`legacy_mask`): the class sees the first padding token behind the text
and not itself; of a text that fills the context it sees itself. Words are the same with either mask.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from equipoise.encoders.encoder import TextEncoder, require_single
from equipoise.encoders.key_value_cache import KeyValueCache
from equipoise.encoders.packing import Packed, attention
from equipoise.encoders.recomputation import Recompute
from equipoise.encoders.transformer import Transformer, check_sizes
from equipoise.settings.bounds import bounded
from equipoise.types import Features, Lengths, UserError


class CoCaText(TextEncoder):
    causal = True
    takes_lengths: ClassVar[bool] = True

    @dataclass(frozen=True)
    class Config:
        cites: ClassVar[tuple[str, ...]] = ("yu2022coca",)

        width: int = bounded(512, 1, 2**16)  # of the tokens
        layers: int = bounded(12, 1, 1000)  # transformer blocks
        heads: int = 8  # of attention; they divide the width
        mlp_ratio: float = bounded(4.0, 0, 64)  # width of the MLPs, in widths of the tower
        activation: str = "gelu"  # of the MLPs: gelu, gelu_tanh, quick_gelu, relu
        legacy_mask: bool = False  # the shifted mask that open_clip's weights were trained with
        pad: int = bounded(0, 0, 2**24)  # the token behind a text that the class sees by `legacy_mask`

        def __post_init__(self) -> None:
            check_sizes(width=self.width, layers=self.layers, heads=self.heads, mlp_ratio=self.mlp_ratio)

        def build(self, vocabulary: int, context: int, classes: int = 1) -> CoCaText:
            require_single("CoCa's text tower", classes)
            return CoCaText(self, vocabulary, context)

    def __init__(self, config: Config, vocabulary: int, context: int):
        super().__init__()
        if config.pad >= vocabulary:
            raise UserError(f"text.pad is {config.pad}, but the vocabulary has {vocabulary} tokens; give one of them")
        self.config, self.width, self.context = config, config.width, context
        self.words = nn.Embedding(vocabulary, config.width)
        self.positions = nn.Parameter(0.01 * torch.randn(context + 1, config.width))
        self.class_token = nn.Parameter(0.01 * torch.randn(config.width))
        sizes = (config.width, config.layers, config.heads, config.mlp_ratio, config.activation)
        self.transformer = Transformer(*sizes)
        self.ln_final = nn.LayerNorm(config.width)
        nn.init.normal_(self.words.weight, std=0.02)

    def blocks(self) -> nn.ModuleList:
        return self.transformer.blocks

    def recompute_activations(self, wanted: Recompute) -> None:
        self.transformer.recompute = wanted

    def forward(
        self, ids: Tensor, mask: Tensor, classes_only: bool = False, lengths: Lengths | None = None
    ) -> Features:
        if (length := ids.shape[1]) > self.context:
            raise UserError(f"texts are {length} tokens wide but the text tower has a context of {self.context}")
        total = None if lengths is None else lengths.total + len(ids)  # a class behind each text
        if self.config.legacy_mask:
            classes, tokens = self._legacy(ids, mask)
        else:
            classes, tokens = self._packed(ids, mask, classes_only, total)
        if classes_only:
            return Features(classes=self.ln_final(classes))
        said = 0 if lengths is None else min(1, lengths.shortest)
        return Features(self.ln_final(classes), tokens * mask[..., None].to(tokens.dtype), mask, said)

    def continued(self, ids: Tensor, past: KeyValueCache) -> Tensor:
        """Features [N, n, w] of words that follow those of `past`."""
        x = self.words(ids) + self.positions[past.length : past.length + ids.shape[1]]
        x = self.transformer(x, past)
        past.advance(ids.shape[1])
        return x

    def _packed(self, ids: Tensor, mask: Tensor, classes_only: bool, total: int | None) -> tuple[Tensor, Tensor]:
        """The class stands right behind each text, so that no padding is left between them."""
        last = self.class_token + self.positions[-1]
        x = F.pad(self.words(ids) + self.positions[: ids.shape[1]], (0, 0, 0, 1))
        rows, ends = torch.arange(len(ids), device=ids.device), mask.sum(1)
        x = x.index_put((rows, ends), last.to(x.dtype).expand(len(ids), -1))
        layout = Packed.of(F.pad(mask, (1, 0), value=True), causal=True, total=total)
        x = self.transformer(layout.pack(x), layout, classes_only)
        return (x, x) if classes_only else (layout.read(x), layout.unpack(x)[:, :-1])

    def _legacy(self, ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        length = ids.shape[1]
        if length < self.context:  # so that a padding token follows every text
            ids, mask = F.pad(ids, (0, 1)), F.pad(mask, (0, 1))
        ids = ids.where(mask, self.config.pad)
        x = self.words(ids) + self.positions[: ids.shape[1]]
        x = torch.cat([x, (self.class_token + self.positions[-1]).expand(len(x), 1, -1)], dim=1)
        x = self.transformer(x, _Shifted.of(mask))
        return x[:, -1:], x[:, :length]


@dataclass(frozen=True)
class _Shifted:
    """Texts with padding and a class behind it: a token is seen if the one before it is real."""

    seen: Tensor  # bool [N, 1, L + 1, L + 1]: which token sees which

    @classmethod
    def of(cls, mask: Tensor) -> _Shifted:
        keys = F.pad(mask, (1, 0), value=True)
        size = keys.shape[1]
        past = torch.ones(size, size, dtype=torch.bool, device=mask.device).tril()
        return cls((past & keys[:, None])[:, None])

    def attend(self, qkv: Tensor) -> Tensor:
        return attention(*qkv.unbind(-3), attn_mask=self.seen)

    def read(self, x: Tensor) -> Tensor:
        return x[:, -1:]

    def attend_to_read(self, q: Tensor, kv: Tensor) -> Tensor:
        return attention(q, *kv.unbind(-3), attn_mask=self.seen[:, :, -1:])

    def exchange(self, x: Tensor, prompts: Tensor) -> Tensor:
        raise NotImplementedError("this tower takes no prompts")
