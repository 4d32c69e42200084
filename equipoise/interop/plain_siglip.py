"""A plain SigLIP: what configs of open_clip and transformers can describe, and the equivalent settings of ours.

Zhai et al. 2023: a ViT pooled by a learned query, a bidirectional text transformer read at its last place, one linear
map on the text side, the unit sphere, a logit scale and a logit bias, both learned with the sigmoid loss. SigLIP 2 at
fixed resolution is the same with another vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from equipoise.data.preprocess import Preprocess
from equipoise.data.tokenizer import NoTokenizer
from equipoise.encoders import IMAGE_ENCODERS, TEXT_ENCODERS, SiglipImage, SiglipText
from equipoise.interop.key_mapping import StateDict
from equipoise.interop.plain_clip import chosen, logit_scale, preprocess_settings
from equipoise.models.model import Model
from equipoise.readouts import ClassToken
from equipoise.spaces import Sphere
from equipoise.types import UserError

HALF = (0.5, 0.5, 0.5)  # mean and std of SigLIP's images
BIAS = -10.0  # before training


@dataclass(frozen=True)
class PlainSigLIP:
    image: SiglipImage.Config
    text: SiglipText.Config
    dim: int
    vocabulary: int
    context: int
    preprocess: Preprocess
    bias: float = BIAS

    @classmethod
    def of(cls, model: Model, format: str) -> PlainSigLIP:
        """Describe a model of ours with SigLIP's image tower; raises UserError for one that is not a SigLIP."""
        image, text = model.image_encoder, model.text_encoder
        pictures, words = model.image_readout, model.text_readout
        plain = type(pictures) is ClassToken and type(words) is ClassToken
        reasons = {
            f"its space is a {type(model.space).__name__}": type(model.space) is not Sphere,
            f"its text tower is a {type(text).__name__}": type(text) is not SiglipText,
            f"its readout is a {type(pictures).__name__}": not plain,
            "its images pass a linear map": plain and getattr(pictures, "projection", None) is not None,
            "the map of its texts has no bias": plain and getattr(words, "bias", None) is None,
            "it has no logit bias": model.logit_bias is None,
            "it has no tokenizer": isinstance(model.tokenizer, NoTokenizer),
            "its texts have a start token": getattr(model.tokenizer, "start", None) is not None,
            "its points are shifted": model.shift is not None,
            "its towers have prompts": model.prompts is not None,
        }
        if present := [reason for reason, holds in reasons.items() if holds]:
            raise UserError(
                f"{format} has no words for this model: {', '.join(present)}; keep it as it is, or export it --to onnx"
            )
        assert isinstance(image, SiglipImage)
        assert isinstance(text, SiglipText)
        assert model.logit_bias is not None
        sizes = (model.space.dim, model.tokenizer.size, text.context)
        return cls(image.config, text.config, *sizes, model.preprocess, model.logit_bias.item())

    def settings(self, name: str, state: StateDict) -> dict[str, Any]:
        """Settings of a run that builds this model; `state` holds its logit scale."""
        return {
            "name": name,
            "tokens": {"kind": "file", "file": "tokenizer.json", "context": self.context},
            "preprocess": preprocess_settings(self.preprocess),
            "image": chosen(self.image, IMAGE_ENCODERS, "siglip-b16"),
            "text": chosen(self.text, TEXT_ENCODERS, "siglip-b"),
            "readout": {"name": "class_token", "image_projection": False, "text_bias": True},
            "space": {"name": "sphere", "dim": self.dim},
            "temperature": logit_scale(state),
            "objective": {"name": "clip", "form": {"name": "sigmoid", "bias": self.bias, "learned": True}},
        }
