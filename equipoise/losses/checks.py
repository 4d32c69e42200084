"""What a caller handed to a loss, looked at: UserError for what gives a number and cannot be meant.

Numbers on a GPU must be waited for, so there only the first call of a loss is looked at: such mistakes are there from
the start. While a graph is compiled or captured, nothing is looked at.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from numbers import Real

import torch
from torch import Tensor, nn

from equipoise.data.keep.weights import PAIR_WEIGHT
from equipoise.kernels.contrast import EAGER_LIMIT
from equipoise.kernels.plausible import require_points
from equipoise.losses.space_by_name import space_for
from equipoise.objectives import Objective
from equipoise.spaces import Space, Sphere
from equipoise.targets import GUIDES
from equipoise.types import Embeddings, UserError

ROLES = frozenset(part.name for part in fields(Embeddings)) - {"further"}
VECTORS = (GUIDES["vectors"].by_row, GUIDES["vectors"].by_col)  # what a tensor `guide` is given as
MOST_SCALE = 1000.0  # CLIP keeps its own at or below 100
STARTS = {
    "ln(1/0.07)": math.log(1 / 0.07),
    "ln(1/0.07), rounded": 2.66,
    "ln(10)": math.log(10),
    "ln(100)": math.log(100),
}  # of t, in CLIP and SigLIP
CLOSE = 1e-4
LEAST_ON_SPHERE = 0.5  # below it similarities of -1 and 1 hardly differ: a temperature


@dataclass(frozen=True)
class Given:
    """What one rank handed in: tensors with a row per pair."""

    image_features: Tensor
    text_features: Tensor
    logit_scale: Tensor | float
    more: Mapping[str, Tensor]
    space: str | Space
    project: bool

    @property
    def sizes(self) -> tuple[int, int]:
        """Pairs, and numbers per feature."""
        shape = self.image_features.shape if isinstance(self.image_features, Tensor) else ()
        return (shape[0], shape[-1]) if len(shape) else (0, 0)

    @property
    def where(self) -> Space:
        return space_for(self.space, self.image_features.shape[1])

    @property
    def side(self) -> dict[str, Tensor]:
        return {name: tensor for name, tensor in self.more.items() if name not in ROLES}

    def scalar(self, name: str, value: Tensor | float) -> Tensor:
        """A number, or a tensor that holds one, in float32 at least: on the processor, or where the features are."""
        scalar, where = as_scalar(name, value), self.image_features.device
        if scalar.device.type != "cpu" and scalar.device != where:
            raise UserError(f"{name} is on {scalar.device} and image_features on {where}; move either")
        return scalar

    def points(self) -> dict[str, Tensor]:
        """Points by role; of half precision in float32, but for bfloat16 where the fused kernels of a GPU take it."""
        roles = {name: tensor for name, tensor in self.more.items() if name in ROLES}
        points = {"image": self.image_features, "text": self.text_features, **roles}
        image = self.image_features
        kept = image.is_cuda and image.dtype == torch.bfloat16 and len(image) ** 2 > EAGER_LIMIT
        if not kept:
            points = {role: x.to(torch.promote_types(x.dtype, torch.float32)) for role, x in points.items()}
        return {role: self.where.project(x) for role, x in points.items()} if self.project else points

    def check(self, objective: Objective, *, made: tuple[str, ...], first: bool) -> None:
        """Raises UserError; `made` are roles that need not be given, `first` is the first call of a loss."""
        features = {"image_features": self.image_features, "text_features": self.text_features}
        _require_pairs(features)
        _require_rows(self.more, self.image_features)
        roles = {name: tensor for name, tensor in self.more.items() if name in ROLES}
        _require_roles(objective, {"image", "text", *made, *roles})
        if isinstance(self.logit_scale, nn.Parameter):
            raise UserError(
                "logit_scale is a parameter itself, and what CLIP models learn is its logarithm; hand in "
                "logit_scale.exp() (or scale * 1, if the parameter is the scale)"
            )
        scale = self.scalar("logit_scale", self.logit_scale)
        space = self.where
        if not _may_look(self.image_features, first):
            return
        _require_scale(float(scale.detach()), space, first)
        _require_weights(self.more.get(PAIR_WEIGHT))
        if not self.project:
            for name, tensor in {**features, **roles}.items():
                require_points(name, tensor, space, "loss.project")


def as_scalar(name: str, value: Tensor | float) -> Tensor:
    """A number or a tensor that holds one, in float32 at least."""
    if not isinstance(value, Tensor | Real):
        raise UserError(f"{name} must be one number, or a tensor that holds one, not {type(value).__name__}")
    tensor = torch.as_tensor(value)
    if tensor.numel() != 1:
        raise UserError(f"{name} must be one number, not a tensor of the shape {list(tensor.shape)}")
    return tensor.reshape(()).to(torch.promote_types(tensor.dtype, torch.float32))


def _require_pairs(features: Mapping[str, Tensor]) -> None:
    for name, tensor in features.items():
        if not isinstance(tensor, Tensor):
            raise UserError(f"{name} must be a tensor [N, d], not {type(tensor).__name__}")
        if tensor.ndim != 2 or not len(tensor) or not tensor.is_floating_point():
            raise UserError(
                f"{name} must be [N, d] of floating-point numbers with N >= 1, not {tensor.dtype} {list(tensor.shape)}"
            )
    image, text = features["image_features"], features["text_features"]
    if len(image) != len(text):
        raise UserError(
            f"there are {len(image)} image_features and {len(text)} text_features; row i of both must be one pair"
        )
    if image.shape[1] != text.shape[1]:
        raise UserError(
            f"image_features have {image.shape[1]} numbers each and text_features {text.shape[1]}; project both into "
            "one space"
        )
    for what in ("dtype", "device"):
        one, other = getattr(image, what), getattr(text, what)
        if one != other:
            raise UserError(f"image_features are {one} and text_features {other}; give both the same {what}")


def _require_rows(more: Mapping[str, Tensor], image: Tensor) -> None:
    for name, tensor in more.items():
        shown = "weights" if name == PAIR_WEIGHT else f"the guide's {name}" if name in VECTORS else name
        if not isinstance(tensor, Tensor):
            raise UserError(f"{shown} must be a tensor with a row per pair, not {type(tensor).__name__}")
        if not tensor.ndim or len(tensor) != len(image):
            rows = len(tensor) if tensor.ndim else "no"
            raise UserError(f"{shown} has {rows} rows, but there are {len(image)} pairs; give one row per pair")
        if tensor.device != image.device:
            raise UserError(f"{shown} is on {tensor.device} and image_features on {image.device}; move either")
        if name in ROLES and (tensor.shape != image.shape or tensor.dtype != image.dtype):
            raise UserError(
                f"{shown} is {tensor.dtype} {list(tensor.shape)} and image_features {image.dtype} "
                f"{list(image.shape)}; it must be points like these"
            )


def _require_roles(objective: Objective, given: set[str]) -> None:
    missing = [role for role in objective.needs if role not in given]
    if missing:
        raise UserError(
            f"{type(objective).__name__} needs {', '.join(missing)} beside image and text; hand it in by keyword, as "
            f"{missing[0]}=..., or choose settings that need none"
        )
    unread = [role for role in given if role not in objective.needs and role not in ("image", "text")]
    if unread:
        raise UserError(f"{unread[0]} was handed in, but {type(objective).__name__} with these settings reads none")


def _may_look(features: Tensor, first: bool) -> bool:
    if torch.compiler.is_compiling():
        return False
    if features.device.type == "cpu":
        return True
    return first and not (features.is_cuda and torch.cuda.is_current_stream_capturing())


def _require_scale(value: float, space: Space, first: bool) -> None:
    if value <= 0:
        raise UserError(f"logit_scale is {value:.4g}, but it is exp(t), which is above 0; hand in logit_scale.exp()")
    if MOST_SCALE < value < math.inf:
        raise UserError(f"logit_scale is {value:.4g}, which is too large to be meant; take exp(t) once, not twice")
    if not first:  # later it may pass through any number
        return
    for name, start in STARTS.items():
        if abs(value - start) < CLOSE:
            raise UserError(f"logit_scale is {value:.5g} = {name}, a logarithm; hand in exp(t), as logit_scale.exp()")
    if isinstance(space, Sphere) and value < LEAST_ON_SPHERE:
        raise UserError(
            f"logit_scale is {value:.4g}, which looks like a temperature; hand in 1/τ = {1 / value:.4g} instead"
        )


def _require_weights(weights: Tensor | None) -> None:
    if weights is None:
        return
    if weights.ndim != 1:
        raise UserError(f"weights has the shape {list(weights.shape)}; give one number per pair")
    wrong = ~(weights.detach() >= 0) | weights.detach().isinf()
    if wrong.any():
        row = int(wrong.nonzero()[0])
        raise UserError(f"weights must be finite and at least 0, but that of pair {row} is {float(weights[row])}")
