"""The residual head of MulT and of GMC's classifier: one hidden layer that adds to its input, and a linear map.

Tsai et al. 2019 (their code); Poklukar et al. 2022 (their code).

    y = W₃ (x + W₂ dropout(relu(W₁ x + b₁)) + b₂) + b₃

x [N, w], y [N, out]; the hidden layer is as wide as x.
"""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional as F


class ResidualHead(nn.Module):
    def __init__(self, width: int, out: int, dropout: float = 0.0):
        super().__init__()
        self.inner, self.outer, self.out = nn.Linear(width, width), nn.Linear(width, width), nn.Linear(width, out)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.out(x + self.outer(self.dropout(F.relu(self.inner(x)))))
        return y
