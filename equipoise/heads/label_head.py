"""What a sample's code tells of its label: a residual block and a linear map.

Tsai et al. 2019, "Multimodal Transformer for Unaligned Multimodal Language Sequences" (MulT), its code; Poklukar et al.
2022 (GMC) read their codes by the same.

    scores = W_3 (x + W_2 relu(W_1 x))          x [N, d] codes; scores [N, outputs]
"""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional as F


class LabelHead(nn.Module):
    def __init__(self, dim: int, outputs: int, dropout: float = 0.0):
        super().__init__()
        self.first, self.second, self.last = nn.Linear(dim, dim), nn.Linear(dim, dim), nn.Linear(dim, outputs)
        self.dropout = nn.Dropout(dropout)

    def forward(self, codes: Tensor) -> Tensor:
        scores: Tensor = self.last(codes + self.second(self.dropout(F.relu(self.first(codes)))))
        return scores
