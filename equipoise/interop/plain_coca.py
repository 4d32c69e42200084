"""A CoCa as open_clip's configs describe it, and the equivalent settings of ours.

Yu et al. 2022: a ViT pooled by learned queries, a causal text tower read at a class token behind the words, a decoder
of captions that looks at what the queries found, the unit sphere.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from equipoise.data.preprocess import Preprocess
from equipoise.encoders import IMAGE_ENCODERS, TEXT_ENCODERS, CoCaImage, CoCaText
from equipoise.heads import CaptionHead
from equipoise.interop.key_mapping import StateDict
from equipoise.interop.plain_clip import chosen, logit_scale, preprocess_settings


@dataclass(frozen=True)
class PlainCoCa:
    image: CoCaImage.Config
    text: CoCaText.Config
    decoder: CaptionHead.Config
    dim: int
    vocabulary: int
    context: int
    preprocess: Preprocess

    def settings(self, name: str, state: StateDict) -> dict[str, Any]:
        """Settings of a run that builds this model; `state` holds its logit scale."""
        return {
            "name": name,
            "tokens": {"kind": "file", "file": "tokenizer.json", "context": self.context},
            "preprocess": preprocess_settings(self.preprocess),
            "image": chosen(self.image, IMAGE_ENCODERS, "coca-b32"),
            "text": chosen(self.text, TEXT_ENCODERS, "coca-b"),
            "readout": {"name": "class_token"},
            "space": {"name": "sphere", "dim": self.dim},
            "temperature": logit_scale(state),
            "objective": {"name": "coca", "decoder": asdict(self.decoder)},
        }
