"""A model that begins with the weights of another one, of the same shape but for what training brings along."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from equipoise.models.folder import SAID, differences
from equipoise.models.model import Model
from equipoise.types import UserError

OWN = ("heads.", "logit_bias")  # of an objective: they take no part in what a model answers


def load_start_weights(model: Model, weights: Mapping[str, Tensor], whose: str) -> None:
    """Load weights of the start model `whose`. Heads, bias and what was added may be new, and former heads may go;
    anything else that does not fit is said, and nothing is loaded."""
    wanted = model.state_dict()
    fitting = {
        name: tensor
        for name, tensor in weights.items()
        if not is_training_only(name) or (name in wanted and wanted[name].shape == tensor.shape)
    }
    new = _added(model) | {name for name in wanted if is_training_only(name)}
    required = {name: tensor for name, tensor in wanted.items() if name in fitting or name not in new}
    if problems := differences(required, fitting):
        more = f"; and {len(problems) - SAID} more" if len(problems) > SAID else ""
        raise UserError(
            f"the run's model is not that of {whose}: {'; '.join(problems[:SAID])}{more}; leave out the settings that "
            "change its shape"
        )
    model.load_state_dict(fitting, strict=False)


def is_training_only(name: str) -> bool:
    return name.startswith(OWN)


def _added(model: Model) -> set[str]:
    """The names of tensors in modules that say they were added."""
    return {
        f"{prefix}.{name}"
        for prefix, module in model.named_modules()
        if getattr(module, "added", False)
        for name in module.state_dict()
    }
