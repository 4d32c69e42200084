"""Class tokens through one linear map: CLIP's readout of one token, and Multi(n, m) of m tokens.

`class_token`: Radford et al. 2021, Fig. 3 (`W_i`, `W_t`).

    vector = class @ projection                         class [N, 1, w], projection [w, d], no bias

CLIP's ResNets alone have a bias [d] on the image side; `image_bias` is for their weights. SigLIP has a bias on the
text side (`text_bias`) and no map on the image side (`image_projection = false`). On a product of spheres the
vector is cut into m parts: PS(n, m).

`class_tokens`: Sun & Li 2024, "Analyzing the Impact of Learnable Softmax Temperature in Contrastive Visual-Textual
Alignment Systems", §3, Fig. 5 and 6; the conference form is "Design of the Topology for Contrastive Visual-Textual
Alignment", §3.1. Each token has a sphere of its own, and all tokens of a tower share one projection.

    vector_k = class_k @ projection,  k = 1 ... m       class [N, m, w], projection [w, n], no bias
    vector   = [vector_1, ..., vector_m]                [N, n·m]; the space normalises each part

n and m are those of the space, a product of m spheres in n dimensions, so they are set in one place. What tells the
tokens apart is in the towers (`vit.py`, `text.py`). With m = 1 both readouts are the same. Fig. 6 calls m "PS_n" and n
"PS_m".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from equipoise.readouts.readout import Readout, Shared
from equipoise.spaces import Space
from equipoise.types import Features, UserError


class ClassToken(Readout):
    @dataclass(frozen=True)
    class Config:
        cites: ClassVar[tuple[str, ...]] = ("radford2021clip",)

        image_bias: bool = False  # in the map of images
        image_projection: bool = True  # False: the image tower's feature is the vector, as SigLIP's is
        text_bias: bool = False  # as SigLIP has it

        def class_tokens(self, space: Space) -> int:
            return 1

        def build(self, width: int, space: Space, tower: str) -> ClassToken:
            if tower == "text":
                return ClassToken(width, space.dim, self.text_bias)
            if not self.image_projection and width != space.dim:
                raise UserError(
                    f"without readout.image_projection images have {width} dimensions, but the space has {space.dim}; "
                    f"set space.dim to {width}, or readout.image_projection to true"
                )
            return ClassToken(width, space.dim, self.image_bias, self.image_projection)

        def shared(self, space: Space) -> None:
            return None

    def __init__(self, width: int, dim: int, bias: bool = False, projection: bool = True):
        super().__init__()
        self.projection = nn.Parameter(width**-0.5 * torch.randn(width, dim)) if projection else None
        self.bias = nn.Parameter(torch.zeros(dim)) if bias else None

    def forward(self, features: Features, shared: Shared | None = None) -> Tensor:
        vectors = features.classes[:, 0]
        vectors = vectors if self.projection is None else vectors @ self.projection
        return vectors if self.bias is None else vectors + self.bias


class ClassTokens(Readout):
    @dataclass(frozen=True)
    class Config:
        cites: ClassVar[tuple[str, ...]] = ("sun2024temperature",)

        beside_context: bool = False  # further class tokens of texts add to tokens.context, as the authors', and leave
        # captions all of it; else they take a part of it

        def class_tokens(self, space: Space) -> int:
            return _spheres(space)[1]

        def build(self, width: int, space: Space, tower: str) -> ClassTokens:
            return ClassTokens(width, *_spheres(space))

        def shared(self, space: Space) -> None:
            return None

    def __init__(self, width: int, n: int, m: int):
        super().__init__()
        self.m = m
        self.projection = nn.Parameter(width**-0.5 * torch.randn(width, n))

    def forward(self, features: Features, shared: Shared | None = None) -> Tensor:
        if (count := features.classes.shape[1]) != self.m:
            raise UserError(
                f"samples have {count} class tokens, but the space has {self.m} spheres; "
                "set space.m to the number of tokens, or give features that have as many"
            )
        return (features.classes @ self.projection).flatten(1)


def _spheres(space: Space) -> tuple[int, int]:
    """n and m of a product of spheres; raises UserError for other spaces."""
    n, m = getattr(space, "n", None), getattr(space, "m", None)
    if n is None or m is None:
        raise UserError(
            f"the readout class_tokens gives each token a sphere of its own, but {type(space).__name__} is no product "
            "of spheres; set space.name to product_sphere, or readout.name to class_token"
        )
    return n, m
