"""Image models of transformers by folder or name: ResNet, ViT, DINOv2, Swin, ConvNeXt and their like.

A model that ends in a map (ResNet, ConvNeXt) gives its mean over places as the class feature; one of tokens gives its
class token where it has one, else the mean. Heads after that (a pooler with weights) are left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from equipoise.data.preprocess import Preprocess
from equipoise.encoders.encoder import ImageEncoder, require_single
from equipoise.encoders.pretrained import Pretrained, import_transformers, library_config, load_all, trained_weights
from equipoise.io.json_files import read_json_table
from equipoise.ops.memory_format import for_convolutions
from equipoise.types import Features, UserError

PREPROCESSOR = "preprocessor_config.json"
PREFIX = ("cls_token", "distillation_token", "register_tokens")  # in front of the patches, one or several each


class TransformersImage(Pretrained, ImageEncoder):
    @dataclass(frozen=True)
    class Config:
        model: str = ""  # a folder with config.json, as transformers writes, or a hub name
        pretrained: bool = False  # weights from that folder, or from the hub
        frozen: bool = False  # whether its weights stay as they are

        def __post_init__(self) -> None:
            if not self.model:
                raise UserError("model is empty; give a folder that holds config.json, or a name of the hub")

        def build(self, image_size: int, classes: int = 1) -> TransformersImage:
            require_single("transformers", classes)
            return TransformersImage(self, image_size)

    def __init__(self, config: Config, image_size: int):
        super().__init__()
        self.config = config
        settings = library_config(config.model, config.pretrained)
        if hasattr(settings, "image_size") and not config.pretrained:
            settings.image_size = image_size
        model: Any = import_transformers().AutoModel.from_config(settings)
        pooler = getattr(model, "pooler", None)
        if pooler is not None and any(True for _ in pooler.parameters()):
            model.pooler = None  # a head we do not use: its weights would never get a gradient
        self._adopt(model, config.frozen)
        self.expects = _colours(Path(config.model)) if config.pretrained else None
        self.prefix = _prefix(model)
        self.width = self._probe(image_size)

    def _probe(self, image_size: int) -> int:
        was_training = self.training
        try:
            with torch.no_grad():
                return int(self.eval()(torch.zeros(1, 3, image_size, image_size)).classes.shape[-1])
        except (ValueError, TypeError, AttributeError) as error:
            raise UserError(
                f"{self.config.model}: this is no image model for {image_size} x {image_size} pixels "
                f"({str(error).splitlines()[0]}); set preprocess.size to what it was made for"
            ) from error
        finally:
            self.train(was_training)

    def load_pretrained(self) -> None:
        if self.config.pretrained:
            load_all(self.model, trained_weights(self.config.model), self.config.model)

    def forward(self, images: Tensor, classes_only: bool = False) -> Features:
        x = self.model(pixel_values=for_convolutions(images)).last_hidden_state
        if x.ndim == 4:  # a map, channels first
            x = x.flatten(2).transpose(1, 2)
        first, tokens = x[:, :1], x[:, self.prefix :]
        pooled = first if self.prefix else tokens.mean(dim=1, keepdim=True)
        real = torch.ones(tokens.shape[:2], dtype=torch.bool, device=tokens.device)
        return Features(pooled, tokens, real, at_least=tokens.shape[1])


def _prefix(model: nn.Module) -> int:
    """Tokens in front of those of the patches."""
    found = (getattr(getattr(model, "embeddings", None), name, None) for name in PREFIX)
    return sum(token.shape[1] for token in found if isinstance(token, Tensor))


def image_preprocess(folder: Path) -> tuple[Preprocess, int]:
    """Preprocessing of a folder's images, and their shorter side before the centre crop."""
    file, colours = folder / PREPROCESSOR, _colours(folder)
    sizes = read_json_table(file) if file.is_file() else {}
    shorter, crop = (_side(sizes.get(name)) for name in ("size", "crop_size"))
    size = crop or shorter
    if colours is None or not size:
        raise UserError(
            f"{file}: this does not say image_mean, image_std and the size of images; give a folder that has it"
        )
    return Preprocess(size, *colours), max(shorter or size, size)  # type: ignore[arg-type]


def _side(said: Any) -> int:
    """Pixels on a side, written as a number or as a table; 0 where it is neither."""
    if isinstance(said, dict):
        said = said.get("shortest_edge") or said.get("height")
    return said if isinstance(said, int) and 0 < said <= 2**13 else 0


def _colours(folder: Path) -> tuple[tuple[float, ...], tuple[float, ...]] | None:
    """Mean and standard deviation of the pixels that its weights were trained with, where the folder says so."""
    file = folder / PREPROCESSOR
    if not file.is_file():
        return None
    said = read_json_table(file)
    mean, std = said.get("image_mean"), said.get("image_std")
    if not all(isinstance(values, list) and len(values) == 3 for values in (mean, std)):
        return None
    return tuple(map(float, mean)), tuple(map(float, std))  # type: ignore[arg-type]
