"""Captions word by word: what each next word of a caption costs, given the picture and the words before it.

Yu et al. 2022, "CoCa: Contrastive Captioners are Image-Text Foundation Models", Eq. 3.

    cost_i = Σ_{j=1}^{L_i - 1} -log softmax(W h_i,j-1)_{word ij}       h of `encoders/multimodal_decoder.py`

Word 0 is the start token, word L_i - 1 the end token. Roles caption_cost and caption_words [N], the sum of a caption's
costs and how many they are, so that a batch may be split and concatenated anywhere. Words are packed, so padding costs
nothing; logits exist a tile at a time (`ops/tiled_vocabulary.py`): never [N, L, V].

W [V, w] is not tied to the text tower's embeddings. Any image tower that gives tokens will do, and any causal text
tower: one that sees later words would be told what it is asked.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from equipoise.encoders.multimodal_decoder import MultimodalDecoder
from equipoise.encoders.packing import Packed
from equipoise.encoders.recomputation import Recompute
from equipoise.encoders.transformer import check_sizes
from equipoise.heads.head import Head, Sizes, TowerOutputs
from equipoise.ops.tiled_vocabulary import tiled_cross_entropy
from equipoise.settings.bounds import bounded
from equipoise.types import Features, UserError


class CaptionHead(Head):
    roles: ClassVar[tuple[str, ...]] = ("caption_cost", "caption_words")
    reads_tokens: ClassVar[tuple[str, ...]] = ("image", "text")

    @dataclass(frozen=True)
    class Config:
        layers: int = bounded(12, 1, 1000)  # transformer blocks
        heads: int = bounded(8, 1, 1000)  # of attention; they divide the width
        mlp_ratio: float = bounded(4.0, 0, 64)  # width of the MLPs, in widths of the tower
        activation: str = "gelu"  # of the MLPs: gelu, gelu_tanh, quick_gelu, relu

        def __post_init__(self) -> None:
            check_sizes(layers=self.layers, heads=self.heads, mlp_ratio=self.mlp_ratio)

        def build(self, sizes: Sizes) -> CaptionHead:
            if not sizes.causal:
                raise UserError(
                    "captions are written word by word, but this text tower sees later words; set text.name to "
                    "coca-... or causal-..., and readout.name to class_token"
                )
            return CaptionHead(self, sizes)

    def __init__(self, config: Config, sizes: Sizes):
        super().__init__()
        width = sizes.text_width
        block = (config.layers, config.heads, config.mlp_ratio, config.activation)
        self.decoder = MultimodalDecoder(width, sizes.image_width, *block)
        self.words = nn.Parameter(width**-0.5 * torch.randn(sizes.vocabulary, width))

    def recompute_activations(self, wanted: Recompute) -> None:
        self.decoder.recompute = wanted

    def forward(self, outputs: TowerOutputs) -> dict[str, Tensor]:
        image, padding = picture_tokens(outputs.features("image"))
        tokens, (ids, mask) = outputs.features("text").tokens, outputs.captions()
        assert tokens is not None
        asked = mask[:, 1:]  # of each word but the last, whether another follows
        known = outputs.batch.lengths.get("mask")
        total = known.total - len(ids) if known is not None and known.shortest > 0 else None  # but its first word each
        layout = Packed.of(asked, causal=True, total=total)
        h = self.decoder(layout.pack(tokens[:, :-1]), self.decoder.keys_values(image), layout, padding)
        costs = self._costs(h, ids[:, 1:].flatten()[layout.rows])
        owners = layout.rows // max(1, asked.shape[1])
        summed = costs.new_zeros(len(ids)).index_add(0, owners, costs)
        return {"caption_cost": summed, "caption_words": asked.sum(1).to(summed.dtype)}

    def logits(self, h: Tensor) -> Tensor:
        """Logits [..., V] of the word that follows h [..., w]."""
        return h @ self.words.to(h.dtype).T

    def _costs(self, h: Tensor, labels: Tensor) -> Tensor:
        if torch.is_autocast_enabled(h.device.type):  # LN gives float32, in which the largest product would be slow
            h = h.to(torch.get_autocast_dtype(h.device.type))
        return tiled_cross_entropy(h, self.words, labels)


def picture_tokens(features: Features) -> tuple[Tensor, Tensor | None]:
    """Tokens [N, P, w] of a picture, and a mask where some of them are padding."""
    if features.tokens is None:
        raise UserError("captions look at the parts of a picture, but this image encoder gives its class alone")
    mask = features.mask
    if mask is None or features.at_least == mask.shape[1] or bool(mask.all()):
        return features.tokens, None
    return features.tokens, mask
