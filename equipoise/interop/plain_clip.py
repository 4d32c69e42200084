"""A plain CLIP: what configs of open_clip and transformers can describe, and the equivalent settings of ours.

Radford et al. 2021: a ViT or a ResNet with one class token, a causal text transformer read at its end token, one linear
map per tower, the unit sphere. Other libraries' files can hold no more than that: other models raise UserError.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from equipoise.data.preprocess import Preprocess
from equipoise.data.tokenizer import NoTokenizer
from equipoise.encoders import IMAGE_ENCODERS, TEXT_ENCODERS, ResNet, TextTransformer, ViT
from equipoise.interop.key_mapping import StateDict
from equipoise.models.model import Model
from equipoise.readouts import ClassToken
from equipoise.spaces import Sphere
from equipoise.types import UserError

CLIPS_BOUND = 100.0  # on exp(t); weights beyond it are not clamped
ROUNDING = 1e-3


@dataclass(frozen=True)
class PlainCLIP:
    image: ViT.Config | ResNet.Config
    text: TextTransformer.Config
    dim: int
    vocabulary: int
    context: int
    preprocess: Preprocess
    image_bias: bool = False  # of a ResNet's last map
    bias: float | None = None  # added to logits, where the loss was SigLIP's

    @classmethod
    def of(cls, model: Model, format: str) -> PlainCLIP:
        """Describe a model of ours; raises UserError for one that is more than a plain CLIP."""
        image, text, readout = model.image_encoder, model.text_encoder, model.image_readout
        reasons = {
            f"its space is a {type(model.space).__name__}": type(model.space) is not Sphere,
            f"its image tower is a {type(image).__name__}": type(image) not in (ViT, ResNet),
            "its image tower has several class tokens": getattr(image, "classes", 1) > 1,
            f"its text tower is a {type(text).__name__}": type(text) is not TextTransformer,
            "its text tower is not causal": type(text) is TextTransformer and not text.config.causal,
            "its text tower has post-LN blocks": not getattr(text.config, "norm_first", True),
            "its text tower has a LayerNorm before the blocks": getattr(text.config, "embedding_norm", False),
            f"its readout is a {type(readout).__name__}": type(readout) is not ClassToken,
            "its images pass no linear map": getattr(readout, "projection", model) is None,
            "the map of its texts has a bias": getattr(model.text_readout, "bias", None) is not None,
            "its texts have no start token": getattr(model.tokenizer, "start", model) is None,
            "it has no tokenizer": isinstance(model.tokenizer, NoTokenizer),
            "its points are shifted": model.shift is not None,
            "its towers have prompts": model.prompts is not None,
        }
        if present := [reason for reason, holds in reasons.items() if holds]:
            raise UserError(
                f"{format} has no words for this model: {', '.join(present)}; keep it as it is, or export it --to onnx"
            )
        assert isinstance(image, (ViT, ResNet))
        assert isinstance(text, TextTransformer)
        assert isinstance(readout, ClassToken)
        return cls(
            image.config,
            text.config,
            model.space.dim,
            model.tokenizer.size,
            text.context,
            model.preprocess,
            readout.bias is not None,
            None if model.logit_bias is None else model.logit_bias.item(),
        )

    def settings(self, name: str, state: StateDict) -> dict[str, Any]:
        """Settings of a run that builds this model; `state` holds its logit scale."""
        form = {"name": "sigmoid", "bias": self.bias, "learned": True}
        return {
            "name": name,
            "tokens": {"kind": "file", "file": "tokenizer.json", "context": self.context},
            "preprocess": preprocess_settings(self.preprocess),
            "image": chosen(
                self.image, IMAGE_ENCODERS, "vit-b32" if isinstance(self.image, ViT.Config) else "resnet-50"
            ),
            "text": chosen(self.text, TEXT_ENCODERS, "causal-b"),
            "readout": {"name": "class_token", "image_bias": self.image_bias},
            "space": {"name": "sphere", "dim": self.dim},
            "temperature": logit_scale(state),
            "objective": {"name": "clip"} if self.bias is None else {"name": "clip", "form": form},
        }


def preprocess_settings(preprocess: Preprocess) -> dict[str, Any]:
    return {"size": preprocess.size, "mean": list(preprocess.mean), "std": list(preprocess.std)} | (
        {"resize": preprocess.resize} if preprocess.resize != Preprocess.resize else {}
    )


def chosen(config: Any, presets: Mapping[str, Any], fallback: str) -> dict[str, Any]:
    """Settings of an encoder under the name of the preset they equal, else under that of the `fallback` preset."""
    values = {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(config).items()}
    return {"name": next((name for name, preset in presets.items() if preset == config), fallback), **values}


def logit_scale(state: StateDict) -> dict[str, float]:
    log_scale = state.get("logit_scale")
    if log_scale is None or log_scale.numel() != 1:
        return {}  # an error when the weights are loaded
    scale = float(log_scale.double().exp())
    return {"init": float(log_scale), **({"max_scale": scale} if scale > CLIPS_BOUND + ROUNDING else {})}
