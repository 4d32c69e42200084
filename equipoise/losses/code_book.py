"""FDT's code book as a module: patches and words in, points of both towers out (`readouts/code_book.py`).

    book = CodeBook(image_width=768, text_width=512)
    image_features, text_features = book(patches, words, text_mask=mask)          # then any loss of this folder

The parameters are the codes, which both towers share, and one map per tower.
"""

from __future__ import annotations

from torch import Tensor, nn

from equipoise.losses.space_by_name import check_space, space_for
from equipoise.readouts.code_book import CodeBookReadout
from equipoise.spaces import Space
from equipoise.types import Features, UserError


class CodeBook(nn.Module):
    def __init__(
        self,
        image_width: int,
        text_width: int,
        dim: int = 512,
        *,
        codes: int = 16_384,
        scale: float = 0.001,
        pooling: str = "max",
        activation: str = "sparsemax",
        projection: str = "two_layers",
        padding: str = "out",
        space: str | Space = "sphere",
    ):
        super().__init__()
        config = CodeBookReadout.Config(codes, scale, pooling, activation, projection, padding)
        check_space(space)
        self.space = space_for(space, dim)
        self.image, self.text = (
            config.build(image_width, self.space, "image"),
            config.build(text_width, self.space, "text"),
        )
        self.book = config.shared(self.space)

    def forward(
        self,
        image_tokens: Tensor,
        text_tokens: Tensor,
        image_mask: Tensor | None = None,
        text_mask: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Patches [N, P, w] and words [N, L, w'] to points [N, d] each; masks [N, ...] are True where one is real."""
        return self.encode_image(image_tokens, image_mask), self.encode_text(text_tokens, text_mask)

    def encode_image(self, tokens: Tensor, mask: Tensor | None = None) -> Tensor:
        return self.space.project(self.image(_features("image_tokens", tokens, mask), self.book))

    def encode_text(self, tokens: Tensor, mask: Tensor | None = None) -> Tensor:
        return self.space.project(self.text(_features("text_tokens", tokens, mask), self.book))

    def shares(self, tower: str, tokens: Tensor, mask: Tensor | None = None) -> Tensor:
        """Shares of all codes in each sample [N, C], of the tower "image" or "text"."""
        if tower not in ("image", "text"):
            raise UserError(f"tower must be image or text, not {tower!r}")
        readout = self.image if tower == "image" else self.text
        return readout.weights(_features(f"{tower}_tokens", tokens, mask), self.book)


def _features(name: str, tokens: Tensor, mask: Tensor | None) -> Features:
    if tokens.ndim != 3:
        raise UserError(f"{name} must be [N, tokens, width], not {list(tokens.shape)}")
    if mask is not None and mask.shape != tokens.shape[:2]:
        raise UserError(f"the mask of {name} must be {list(tokens.shape[:2])}, not {list(mask.shape)}")
    return Features(tokens[:, :0], tokens, None if mask is None else mask.bool())
