"""Text transformers: CLIP's causal one, read at the end token, and a bidirectional one, read at a class token.

Radford et al. 2021, §2.4 (causal, end-of-text readout); Devlin et al. 2019, BERT (bidirectional, class token first),
here with pre-LN blocks unless `norm_first` is false; Sun & Li 2024, §3 (several class tokens: copies of the first, each
at a position of its own, which is all that tells them apart; their tower has post-LN blocks, and a LayerNorm of words
with their positions before them: `norm_first = false`, `embedding_norm = true`). Positions are learned. Padding costs
nothing and changes nothing: the real tokens of a batch are packed into one sequence (see packing.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from equipoise.encoders.encoder import PromptTokens, TextEncoder
from equipoise.encoders.key_value_cache import KeyValueCache
from equipoise.encoders.packing import Packed, Padded
from equipoise.encoders.recomputation import Recompute
from equipoise.encoders.transformer import Transformer, check_sizes
from equipoise.settings.bounds import bounded
from equipoise.types import Features, Lengths, UserError


class TextTransformer(TextEncoder):
    takes_lengths: ClassVar[bool] = True
    prompts: PromptTokens | None = None  # that follow the class tokens, or the start
    prompts_replace_words: bool = False  # the words there give way to them; else they are inserted
    lay_out: Callable[..., Packed | Padded] = staticmethod(Packed.of)  # how texts lie; an export has them padded

    @dataclass(frozen=True)
    class Config:
        causal: bool = True  # words see earlier ones alone, read at the end; false: all, read at a class token
        width: int = bounded(512, 1, 2**16)  # of the tokens
        layers: int = bounded(12, 1, 1000)  # transformer blocks
        heads: int = 8  # of attention; they divide the width
        mlp_ratio: float = bounded(4.0, 0, 64)  # width of the MLPs, in widths of the tower
        activation: str = "gelu"  # of the MLPs: gelu, gelu_tanh, quick_gelu, relu
        norm_first: bool = True  # pre-LN blocks; false: post-LN, as BERT's
        embedding_norm: bool = False  # a LayerNorm of words with their positions, before the blocks

        def __post_init__(self) -> None:
            check_sizes(width=self.width, layers=self.layers, heads=self.heads, mlp_ratio=self.mlp_ratio)

        @property
        def cites(self) -> tuple[str, ...]:
            return ("radford2021clip",) if self.causal else ("devlin2019bert",)

        def build(self, vocabulary: int, context: int, classes: int = 1) -> TextTransformer:
            if self.causal and classes > 1:
                raise UserError(
                    f"a causal text tower is read at its end alone, but {classes} class tokens are wanted; "
                    "set text.name to bert-... or text.causal to false"
                )
            return TextTransformer(self, vocabulary, context, classes)

    def __init__(self, config: Config, vocabulary: int, context: int, classes: int = 1):
        super().__init__()
        self.config, self.width, self.context, self.classes = config, config.width, context, classes
        self.causal = config.causal
        self.words = nn.Embedding(vocabulary, config.width)
        self.positions = nn.Parameter(0.01 * torch.randn(context, config.width))
        if config.embedding_norm:
            self.ln_embedding = nn.LayerNorm(config.width)
        self.transformer = Transformer(
            config.width, config.layers, config.heads, config.mlp_ratio, config.activation, norm_first=config.norm_first
        )
        self.ln_final = nn.LayerNorm(config.width)
        nn.init.normal_(self.words.weight, std=0.02)

    def blocks(self) -> nn.ModuleList:
        return self.transformer.blocks

    def recompute_activations(self, wanted: Recompute) -> None:
        self.transformer.recompute = wanted

    def forward(
        self, ids: Tensor, mask: Tensor, classes_only: bool = False, lengths: Lengths | None = None
    ) -> Features:
        ids, mask = self._with_class_tokens(ids, mask)
        prompts = self.prompts() if self.prompts else ()
        count = len(prompts[0]) if prompts else 0
        first, taken = self.classes, count if self.prompts_replace_words else 0  # a start token is one of the classes
        _require_words(mask, first, taken)
        length = ids.shape[1] + count - taken
        if length > self.context:
            raise UserError(f"texts are {length} tokens wide but the text tower has a context of {self.context}")
        x = _inserted(self.words(ids), first, taken, [tokens.expand(ids.shape[0], -1, -1) for tokens in prompts[:1]])
        attended = _inserted(mask, first, taken, [mask.new_ones(mask.shape[0], count)] if count else [])
        further = self.classes - 1 + count - taken  # tokens of each text beside its own
        total = None if lengths is None else lengths.total + len(ids) * further
        layout = self.lay_out(attended, self.config.causal, self.classes, total)
        x = layout.pack(x + self.positions[:length])
        x = self.ln_embedding(x) if self.config.embedding_norm else x
        x = self.ln_final(self.transformer(x, layout, classes_only, prompts=prompts))
        if classes_only:
            return Features(classes=x)
        read = 0 if self.config.causal else self.classes  # class tokens are no words, nor are prompts
        tokens = layout.unpack(x)
        words = torch.cat([tokens[:, read:first], tokens[:, first + count :]], dim=1) if count else tokens[:, read:]
        real = torch.cat([mask[:, read:first], mask[:, first + taken :]], dim=1) if taken else mask[:, read:]
        said = 0 if lengths is None else lengths.shortest - (0 if self.config.causal else 1)
        return Features(classes=layout.read(x), tokens=words, mask=real, at_least=0 if taken else min(1, max(0, said)))

    def continued(self, ids: Tensor, past: KeyValueCache) -> Tensor:
        """Features [N, n, w] of words that follow those of `past`, of a causal tower without prompts."""
        if not self.causal or self.prompts is not None:
            raise UserError("words can be added to a text that is read by a causal tower without prompts alone")
        x = self.words(ids) + self.positions[past.length : past.length + ids.shape[1]]
        x = self.ln_embedding(x) if self.config.embedding_norm else x
        x = self.ln_final(self.transformer(x, past))
        past.advance(ids.shape[1])
        return x

    def _with_class_tokens(self, ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Add the further class tokens before the one that texts start with."""
        further = self.classes - 1
        if not further:
            return ids, mask
        return torch.cat([ids[:, :1].expand(-1, further), ids], dim=1), F.pad(mask, (further, 0), value=True)


def _inserted(x: Tensor, place: int, taken: int, parts: list[Tensor]) -> Tensor:
    """Insert tokens into [N, L, ...] at `place`, in place of the `taken` ones that are there."""
    if not parts:
        return x
    return torch.cat([x[:, :place], *(part.to(x.dtype) for part in parts), x[:, place + taken :]], dim=1)


def _require_words(mask: Tensor, first: int, taken: int) -> None:
    """Raise UserError where prompts would replace more than the words of a text: its end, or what is not there."""
    if not taken or torch.jit.is_tracing():
        return
    short = mask.sum(1) < first + taken + 1
    if mask.shape[1] < first + taken + 1 or bool(short.any()):
        raise UserError(
            f"prompts.replace takes the first {taken} tokens of every text, but a text of this batch has no more than "
            'that; give templates such as "a photo of a {}", or set prompts.replace to false'
        )
