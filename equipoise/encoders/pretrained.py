"""Encoders of other libraries by name: image models of timm, text models of transformers and sentence-transformers.

Both libraries are extras. Building one makes the architecture alone; `load_pretrained` fetches weights, from local
files, or from the hub where the recipe says `pretrained = true` and names no file. A model folder holds its weights
already, so loading it needs neither. A `frozen` encoder is neither trained nor does it leave evaluation mode.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from pickle import UnpicklingError
from typing import Any, Self

import torch
from torch import Tensor, nn

from equipoise.data.preprocess import Preprocess
from equipoise.encoders.encoder import Encoder, ImageEncoder, TextEncoder, mean_of_real, require_single
from equipoise.io.json_files import read_json, read_json_table
from equipoise.ops.out_of_memory import lacks_memory
from equipoise.types import Features, UserError

POOLINGS = ("mean", "first")
MEND_TORCHVISION = "install the torchvision that belongs to this torch, or none"
SENTENCE_MODULES = ("Transformer", "Pooling", "Normalize")  # of a sentence-transformers folder; the last is a space's


class Pretrained(Encoder):
    """A model of another library, which may be frozen."""

    model: nn.Module
    frozen: bool = False

    def _adopt(self, model: nn.Module, frozen: bool) -> None:
        self.model, self.frozen = model.requires_grad_(not frozen), frozen
        self.train(self.training)

    def train(self, mode: bool = True) -> Self:
        return super().train(mode and not self.frozen)


class TimmImage(Pretrained, ImageEncoder):
    @dataclass(frozen=True)
    class Config:
        model: str = "vit_base_patch16_224"  # timm's name
        weights: str = ""  # a .safetensors or .pth file of the model
        pretrained: bool = False  # weights from the hub
        frozen: bool = False

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
            _load(self.model, _read_weights(Path(self.config.weights)), self.config.weights)
        elif self.config.pretrained:
            timm = import_timm()
            source = timm.create_model(self.config.model, pretrained=True, num_classes=0)
            _load(self.model, source.state_dict(), f"timm:{self.config.model}")

    def forward(self, images: Tensor, classes_only: bool = False) -> Features:
        model: Any = self.model
        x = model.forward_features(images)
        pooled = model.forward_head(x, pre_logits=True)[:, None]
        if x.ndim == 4:  # a map: channels first, unless the model says otherwise
            x = x.flatten(1, 2) if _channels_last(model) else x.flatten(2).transpose(1, 2)
        else:
            x = x[:, getattr(model, "num_prefix_tokens", 0) :]
        tokens = x if x.shape[-1] == pooled.shape[-1] else pooled  # some heads widen after pooling
        return Features(pooled, tokens, torch.ones(tokens.shape[:2], dtype=torch.bool, device=tokens.device))


class TransformersText(Pretrained, TextEncoder):
    @dataclass(frozen=True)
    class Config:
        model: str = ""  # a folder with config.json, as transformers and sentence-transformers write, or a hub name
        pretrained: bool = False  # weights from that folder, or from the hub
        pooling: str = ""  # mean or first token; by default what a sentence-transformers folder says, else mean
        frozen: bool = False

        def __post_init__(self) -> None:
            if not self.model:
                raise UserError("model is empty; give a folder that holds config.json, or a name of the hub")
            if self.pooling not in ("", *POOLINGS):
                raise UserError(f"pooling must be one of {', '.join(POOLINGS)}, not {self.pooling!r}")

        def build(self, vocabulary: int, context: int, classes: int = 1) -> TransformersText:
            require_single("transformers", classes)
            return TransformersText(self, vocabulary, context)

    def __init__(self, config: Config, vocabulary: int, context: int):
        super().__init__()
        transformers = import_transformers()
        self.config = config
        self.pooling = config.pooling or sentence_pooling(Path(config.model))
        settings = self._library_config(transformers)
        _require_room(config.model, "tokens", vocabulary, settings.vocab_size)
        _require_room(config.model, "positions", context, getattr(settings, "max_position_embeddings", context))
        model = transformers.AutoModel.from_config(settings)
        if getattr(model, "pooler", None) is not None:
            model.pooler = None  # a head we do not use: its weights would never get a gradient
        self._adopt(model, config.frozen)
        self.width = settings.hidden_size

    def _library_config(self, transformers: Any) -> Any:
        folder = Path(self.config.model)
        if not (folder / "config.json").is_file() and not self.config.pretrained:
            raise UserError(
                f"{folder}: there is no config.json there; give a folder of transformers, "
                "or set pretrained to true to fetch the model of that name from the hub"
            )
        return _from(transformers.AutoConfig, self.config.model)

    def load_pretrained(self) -> None:
        if self.config.pretrained:
            source = _from(import_transformers().AutoModel, self.config.model)
            _load(self.model, source.state_dict(), self.config.model)

    def forward(self, ids: Tensor, mask: Tensor, classes_only: bool = False) -> Features:
        x = self.model(input_ids=ids, attention_mask=mask.long()).last_hidden_state
        if self.pooling == "first":
            return Features(x[:, :1], x[:, 1:], mask[:, 1:])
        return Features(mean_of_real(x, mask), x, mask)


def sentence_pooling(folder: Path) -> str:
    """Pooling of a sentence-transformers folder, mean or first; the mean where it names none."""
    modules, pooling = folder / "modules.json", folder / "1_Pooling" / "config.json"
    if not modules.is_file():
        return "mean"
    modes = read_json_table(pooling)
    try:
        kinds = [module["type"].rpartition(".")[2] for module in read_json(modules)]
    except (KeyError, TypeError, AttributeError):
        raise UserError(f"cannot read {modules}: it must be a list of tables, each with a type") from None
    modes_on = {name.removeprefix("pooling_mode_") for name, on in modes.items() if on is True and "_mode_" in name}
    known = {"mean_tokens": "mean", "cls_token": "first"}
    if not set(kinds) <= set(SENTENCE_MODULES) or len(modes_on & set(known)) != 1 or not modes_on <= set(known):
        raise UserError(f"{folder}: only mean and first-token pooling without further layers can be read, not {modes}")
    return known[modes_on.pop()]


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


def import_transformers() -> Any:
    try:
        import transformers
    except ImportError as error:
        raise UserError("text encoders of transformers need it; pip install 'equipoise[transformers]'") from error
    try:
        import transformers.modeling_utils  # what AutoModel will import, but blames on the model
    except (ImportError, RuntimeError) as error:  # a torchvision built for another torch
        raise UserError(f"transformers cannot be used ({error}); {MEND_TORCHVISION}") from error
    return transformers


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


def _from(kind: Any, name: str) -> Any:
    """A part of a transformers model, from its folder alone where there is one."""
    try:
        return kind.from_pretrained(name, local_files_only=Path(name).is_dir(), trust_remote_code=False)
    except (OSError, ValueError) as error:
        raise UserError(f"{name}: transformers cannot read this ({str(error).splitlines()[0]})") from error


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


def _load(model: nn.Module, weights: dict[str, Tensor], name: str) -> None:
    """Load all of the model's weights; others in `weights` (a classifier, a pooler) are ignored."""
    expected = model.state_dict()
    lacking = [key for key, tensor in expected.items() if key not in weights or weights[key].shape != tensor.shape]
    if lacking:
        raise UserError(f"{name} lacks weights of this model, or has them in another shape: {', '.join(lacking[:3])}")
    model.load_state_dict({key: weights[key] for key in expected})


def _require_room(name: str, what: str, needed: int, available: int) -> None:
    if needed > available:
        raise UserError(
            f"{name} has {available} {what}, but {needed} are wanted; use its own tokenizer and a fit context"
        )
