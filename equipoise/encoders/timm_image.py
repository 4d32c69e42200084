"""Image models of timm by name."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch
from torch import Tensor, nn

from equipoise.data.preprocess import Preprocess
from equipoise.encoders.encoder import ImageEncoder, require_single
from equipoise.encoders.pretrained import MEND_TORCHVISION, Pretrained, load_all
from equipoise.ops.memory_format import for_convolutions
from equipoise.ops.out_of_memory import lacks_memory
from equipoise.types import Features, UserError


class TimmImage(Pretrained, ImageEncoder):
    @dataclass(frozen=True)
    class Config:
        model: str = "vit_base_patch16_224"  # timm's name
        weights: str = ""  # a .safetensors or .pth file of the model
        pretrained: bool = False  # weights from the hub
        frozen: bool = False  # whether its weights stay as they are

        def __post_init__(self) -> None:
            if self.weights and self.pretrained:
                raise UserError("weights names a file and pretrained asks for the hub's; leave out one of the two")

        def build(self, image_size: int, classes: int = 1) -> TimmImage:
            require_single("timm", classes)
            return TimmImage(self, image_size)

    def __init__(self, config: Config, image_size: int):
        super().__init__()
        self.config = config
        self._adopt(_create_timm(config.model, image_size), config.frozen)
        pretrained_cfg: dict[str, Any] = self.model.pretrained_cfg  # type: ignore[assignment]
        if config.weights or config.pretrained:
            self.expects = tuple(pretrained_cfg["mean"]), tuple(pretrained_cfg["std"])
        was_training = self.training
        with torch.no_grad():
            probe = self.eval()(torch.zeros(1, 3, image_size, image_size))
        self.train(was_training)
        self.width = probe.classes.shape[-1]

    def load_pretrained(self) -> None:
        if self.config.weights:
            load_all(self.model, _read_weights(Path(self.config.weights)), self.config.weights)
        elif self.config.pretrained:
            timm = import_timm()
            source = timm.create_model(self.config.model, pretrained=True, num_classes=0)
            load_all(self.model, source.state_dict(), f"timm:{self.config.model}")

    def forward(self, images: Tensor, classes_only: bool = False) -> Features:
        model: Any = self.model
        x = model.forward_features(for_convolutions(images))
        pooled = model.forward_head(x, pre_logits=True)[:, None]
        if x.ndim == 4:  # a map: channels first, unless the model says otherwise
            x = x.flatten(1, 2) if _channels_last(model) else x.flatten(2).transpose(1, 2)
        else:
            x = x[:, getattr(model, "num_prefix_tokens", 0) :]
        tokens = x if x.shape[-1] == pooled.shape[-1] else pooled  # some heads widen after pooling
        real = torch.ones(tokens.shape[:2], dtype=torch.bool, device=tokens.device)
        return Features(pooled, tokens, real, at_least=tokens.shape[1])


def timm_preprocess(name: str) -> tuple[Preprocess, int]:
    """Preprocessing of a timm model's images, and their shorter side before the centre crop."""
    cfg = import_timm().get_pretrained_cfg(name)
    if cfg is None:
        raise UserError(f"timm says nothing of how images for {name!r} are prepared; choose one of its trained models")
    if cfg.interpolation != "bicubic":
        warnings.warn(f"timm:{name} was trained on {cfg.interpolation} images; they are bicubic here", stacklevel=2)
    size = cfg.input_size[-1]
    return Preprocess(size, tuple(cfg.mean), tuple(cfg.std)), int(size / cfg.crop_pct)


def import_timm() -> Any:
    try:
        import timm
    except ImportError as error:
        raise UserError("image encoders of timm need it installed; pip install 'equipoise[timm]'") from error
    except RuntimeError as error:  # a torchvision built for another torch
        raise UserError(f"timm cannot be used ({error}); {MEND_TORCHVISION}") from error
    return timm


def _create_timm(name: str, image_size: int) -> nn.Module:
    timm = import_timm()
    if not timm.is_model(name):
        near = ", ".join(get_close_matches(name, timm.list_models(), 5)) or "see timm.list_models()"
        raise UserError(f"timm has no model {name!r}; the nearest are {near}")
    try:
        return timm.create_model(name, num_classes=0, img_size=image_size)
    except TypeError:  # a convolutional model, which takes any size
        return timm.create_model(name, num_classes=0)


def _channels_last(model: Any) -> bool:
    return str(getattr(model, "output_fmt", "NCHW")).endswith("NHWC")


def _read_weights(path: Path) -> dict[str, Tensor]:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        if path.suffix == ".safetensors":
            return load_file(path)
        return torch.load(path, map_location="cpu", weights_only=True)  # tensors alone, no code
    except (OSError, SafetensorError, RuntimeError, ValueError, EOFError, UnpicklingError) as error:
        if lacks_memory(error):
            raise
        raise UserError(f"cannot read weights from {path}: {(str(error) or 'it is empty').splitlines()[0]}") from error
