"""Warm start: a model initialised with the weights of another of the same shape, but for parts of training alone."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from equipoise.models.folder import LISTED, state_dict_differences
from equipoise.models.model import Model
from equipoise.types import UserError

TRAINING_ONLY = ("heads.", "logit_bias")  # of an objective: points do not depend on them


def load_start_weights(model: Model, weights: Mapping[str, Tensor], source: str) -> None:
    """Load the weights of the start model called `source`. Heads, bias and added modules may be new, and former heads
    may be dropped; for any other difference load nothing and raise UserError."""
    expected = model.state_dict()
    fitting = {
        key: tensor
        for key, tensor in weights.items()
        if not is_training_only(key) or (key in expected and expected[key].shape == tensor.shape)
    }
    new = _added(model) | {key for key in expected if is_training_only(key)}
    required = {key: tensor for key, tensor in expected.items() if key in fitting or key not in new}
    if problems := state_dict_differences(required, fitting):
        more = f"; and {len(problems) - LISTED} more" if len(problems) > LISTED else ""
        raise UserError(
            f"the run's model is not that of {source}: {'; '.join(problems[:LISTED])}{more}; leave out the settings "
            "that change its shape"
        )
    model.load_state_dict(fitting, strict=False)


def is_training_only(key: str) -> bool:
    """Whether a state-dict key belongs to a head or to the logit bias."""
    return key.startswith(TRAINING_ONLY)


def _added(model: Model) -> set[str]:
    """State-dict keys of modules marked `added`: adapters and prompts."""
    return {
        f"{prefix}.{name}"
        for prefix, module in model.named_modules()
        if getattr(module, "added", False)
        for name in module.state_dict()
    }
