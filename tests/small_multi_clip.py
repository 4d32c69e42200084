"""A CLIP with several class tokens whose weights have the keys of clip-mtob, made of torch's own layers.

Written from the description of Sun & Li's model: what it computes is torch's business (`nn.MultiheadAttention`,
`nn.TransformerEncoder` with its default post-LN), so that it is a peer of our towers and no copy of them.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

WIDTH, TEXT_WIDTH, LAYERS, PATCH, SIZE, CONTEXT = 128, 64, 2, 8, 32, 12


class _Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attn = nn.MultiheadAttention(width, width // 64, batch_first=True)
        self.mlp = nn.ModuleDict({"c_fc": nn.Linear(width, 4 * width), "c_proj": nn.Linear(4 * width, width)})

    def forward(self, x: Tensor) -> Tensor:
        read = self.ln_1(x)
        x = x + self.attn(read, read, read, need_weights=False)[0]
        return x + self.mlp["c_proj"](F.gelu(self.mlp["c_fc"](self.ln_2(x))))


class _Blocks(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.resblocks = nn.ModuleList(_Block(WIDTH) for _ in range(LAYERS))


class _Visual(nn.Module):
    def __init__(self, n: int, m: int, as_vector: bool) -> None:
        super().__init__()
        self.m = m
        self.class_embedding = nn.Parameter(torch.randn(*(() if as_vector else (m,)), WIDTH))
        self.positional_embedding = nn.Parameter(torch.randn(m + (SIZE // PATCH) ** 2, WIDTH))
        self.conv1 = nn.Conv2d(3, WIDTH, PATCH, PATCH, bias=False)
        self.ln_pre, self.ln_post = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.transformer = _Blocks()
        self.proj = nn.Parameter(torch.randn(WIDTH, n))

    def forward(self, images: Tensor) -> Tensor:
        patches = self.conv1(images).flatten(2).mT
        first = self.class_embedding.view(1, self.m, WIDTH).expand(len(images), -1, -1)
        x = self.ln_pre(torch.cat([first, patches], dim=1) + self.positional_embedding)
        for block in self.transformer.resblocks:
            x = block(x)
        return self.ln_post(x[:, : self.m]) @ self.proj


class _Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(
            TEXT_WIDTH, TEXT_WIDTH // 64, 4 * TEXT_WIDTH, dropout=0.0, activation="gelu", batch_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False)


class SmallMultiCLIP(nn.Module):
    """m class tokens in n dimensions each; with `as_vector` the only class token is a vector, as a plain CLIP's is."""

    def __init__(self, vocabulary: int, n: int = 6, m: int = 4, as_vector: bool = False) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.m = m
        self.visual = _Visual(n, m, as_vector)
        self.transformer = _Encoder()
        self.token_embedding = nn.Embedding(vocabulary, TEXT_WIDTH)
        self.positional_embedding = nn.Parameter(torch.randn(CONTEXT + m - 1, TEXT_WIDTH))
        self.ln_embedding, self.ln_final = nn.LayerNorm(TEXT_WIDTH), nn.LayerNorm(TEXT_WIDTH)
        self.text_projection = nn.Parameter(torch.randn(TEXT_WIDTH, n))
        self.logit_scale = nn.Parameter(torch.tensor(2.5))
        for parameter in self.parameters():  # biases and norms too, or a mix-up of them would not show
            nn.init.normal_(parameter, std=0.1) if parameter.ndim < 2 and parameter.ndim else None

    def encode_text(self, ids: Tensor, mask: Tensor) -> Tensor:
        """[N, m, n] of ids padded to the context."""
        before = self.m - 1
        ids = torch.cat([ids[:, :1].repeat(1, before), ids], dim=1)
        padding = F.pad(~mask, (before, 0), value=False)
        x = self.ln_embedding(self.token_embedding(ids) + self.positional_embedding)
        x = self.ln_final(self.transformer.encoder(x, src_key_padding_mask=padding))
        return x[:, : self.m] @ self.text_projection

    def logits(self, images: Tensor, ids: Tensor, mask: Tensor) -> Tensor:
        """The sum over class tokens of cosines [N, M], as released: without exp(t)."""
        u, v = (F.normalize(x, dim=-1) for x in (self.visual(images), self.encode_text(ids, mask)))
        return torch.einsum("imd,jmd->ij", u, v)
