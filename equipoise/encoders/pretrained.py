"""What encoders of other libraries have in common (`timm_image.py`, `transformers_image.py`, `transformers_text.py`).

Both libraries are extras. Building one makes the architecture alone; `load_pretrained` fetches weights, from local
files, or from the hub where the recipe says `pretrained = true` and names no file. A model folder holds its weights
already, so loading it needs neither. A `frozen` encoder is neither trained nor does it leave evaluation mode.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor, nn

from equipoise.encoders.encoder import Encoder
from equipoise.types import UserError

MEND_TORCHVISION = "install the torchvision that belongs to this torch, or none"


class Pretrained(Encoder):
    """A model of another library, which may be frozen."""

    model: nn.Module
    frozen: bool = False

    def _adopt(self, model: nn.Module, frozen: bool) -> None:
        self.model, self.frozen = model.requires_grad_(not frozen), frozen
        self.train(self.training)

    def train(self, mode: bool = True) -> Self:
        return super().train(mode and not self.frozen)


def import_transformers() -> Any:
    try:
        import transformers
    except ImportError as error:
        raise UserError("encoders of transformers need it; pip install 'equipoise[transformers]'") from error
    try:
        import transformers.modeling_utils  # what AutoModel will import, but blames on the model
    except (ImportError, RuntimeError) as error:  # a torchvision built for another torch
        raise UserError(f"transformers cannot be used ({error}); {MEND_TORCHVISION}") from error
    return transformers


def library_config(model: str, pretrained: bool) -> Any:
    """The settings of a transformers model: of its folder, or of the hub where that was asked for."""
    if not (Path(model) / "config.json").is_file() and not pretrained:
        raise UserError(
            f"{model}: there is no config.json there; give a folder of transformers, "
            "or set pretrained to true to fetch the model of that name from the hub"
        )
    return part_of(import_transformers().AutoConfig, model)


def trained_weights(name: str) -> dict[str, Tensor]:
    """The weights of a transformers model in float32: by itself the library reads all of a file in the type of its
    first tensor, and a variance that float16 cannot hold becomes infinite."""
    return part_of(import_transformers().AutoModel, name, dtype=torch.float32).state_dict()


def part_of(kind: Any, name: str, **how: Any) -> Any:
    """A part of a transformers model, from its folder alone where there is one."""
    try:
        return kind.from_pretrained(name, local_files_only=Path(name).is_dir(), trust_remote_code=False, **how)
    except (OSError, ValueError) as error:
        raise UserError(f"{name}: transformers cannot read this ({str(error).splitlines()[0]})") from error


def load_all(model: nn.Module, weights: dict[str, Tensor], name: str) -> None:
    """Load all of the model's weights; others in `weights` (a classifier, a pooler) are ignored."""
    expected = model.state_dict()
    lacking = [key for key, tensor in expected.items() if key not in weights or weights[key].shape != tensor.shape]
    if lacking:
        raise UserError(f"{name} lacks weights of this model, or has them in another shape: {', '.join(lacking[:3])}")
    model.load_state_dict({key: weights[key] for key in expected})
