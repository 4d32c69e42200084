"""Code weights as features: a sample is the shares of all codes [C] instead of their weighted sum [d].

Chen et al. 2023 (FDT), §4.3 and the rows marked * of Table 8: "using the FDT weights (Equation 5, 7 and 8) of each
image or sentence as the features". They are compared by the cosine, as the paper compares everything. A sample takes C
numbers, so N samples take N·C.
"""

from __future__ import annotations

import copy

from torch import Tensor

from equipoise.models.model import Model
from equipoise.readouts import CodeBook, CodeBookReadout, Readout, Shared
from equipoise.spaces import Sphere
from equipoise.types import Features, UserError


class CodeWeights(Readout):
    """Readout of a code book's shares [N, C], from which the code book's readout makes its vector."""

    reads_tokens = True
    reads_classes = False

    def __init__(self, readout: CodeBookReadout):
        super().__init__()
        self.readout = readout

    def forward(self, features: Features, shared: Shared | None = None) -> Tensor:
        assert isinstance(shared, CodeBook)
        return self.readout.weights(features, shared)


def with_code_features(model: Model) -> Model:
    """Copy of the model that shares its parameters and whose points are code weights on a sphere."""
    image, text = model.image_readout, model.text_readout
    if not (isinstance(image, CodeBookReadout) and isinstance(text, CodeBookReadout)):
        raise UserError(
            "this model has no code weights; set evaluation.features to points, or readout.name to code_book"
        )
    assert isinstance(model.shared, CodeBook)
    viewed = copy.copy(model)
    viewed._modules = {**model._modules, "image_readout": CodeWeights(image), "text_readout": CodeWeights(text)}
    viewed.shift = None  # it is a direction of the former points
    viewed.space = Sphere(len(model.shared.codes))
    return viewed
