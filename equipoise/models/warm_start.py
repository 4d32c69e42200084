"""Warm start: a model initialised with the weights of another of the same shape, but for parts of training alone."""

from __future__ import annotations

import warnings
from collections.abc import Mapping

from torch import Tensor

from equipoise.models.folder import LISTED, state_dict_differences
from equipoise.models.model import Model
from equipoise.types import Notice, UserError

TRAINING_ONLY = ("heads.", "logit_bias")  # of an objective: points do not depend on them
CAPTIONS = "heads.caption."  # but captions do: these are kept as they are, or dropped and told


def load_start_weights(model: Model, weights: Mapping[str, Tensor], source: str) -> None:
    """Load the weights of the start model called `source`. Heads, bias and added modules may be new, and former heads
    may be dropped; for any other difference load nothing and raise UserError."""
    expected = model.state_dict()
    captions = _same_captions(expected, weights, source)
    fitting = {
        key: tensor
        for key, tensor in weights.items()
        if _must_fit(key, captions) or (key in expected and expected[key].shape == tensor.shape)
    }
    new = _added(model) | {key for key in expected if not _must_fit(key, captions)}
    required = {key: tensor for key, tensor in expected.items() if key in fitting or key not in new}
    if problems := state_dict_differences(required, fitting):
        more = f"; and {len(problems) - LISTED} more" if len(problems) > LISTED else ""
        raise UserError(
            f"the run's model is not that of {source}: {'; '.join(problems[:LISTED])}{more}; leave out the settings "
            "that change its shape"
        )
    model.load_state_dict(fitting, strict=False)


def _same_captions(expected: Mapping[str, Tensor], weights: Mapping[str, Tensor], source: str) -> bool:
    """Whether both have a decoder of captions, which must then be the same; one that is dropped is told of."""
    writes, will_write = (any(key.startswith(CAPTIONS) for key in keys) for keys in (weights, expected))
    if writes and not will_write:
        warnings.warn(
            f"{source} writes captions, but this run's objective has no decoder of them, so its model will write none; "
            "set objective.name=coca to keep it",
            Notice,
            stacklevel=3,
        )
    return writes and will_write


def _must_fit(key: str, captions: bool) -> bool:
    """Whether a tensor must be the same in both models; those of captions where both write them."""
    return captions if key.startswith(CAPTIONS) else not is_training_only(key)


def is_training_only(key: str) -> bool:
    """Whether a state-dict key belongs to a head, but for the one that writes captions, or to the logit bias."""
    return key.startswith(TRAINING_ONLY) and not key.startswith(CAPTIONS)


def _added(model: Model) -> set[str]:
    """State-dict keys of modules marked `added`: adapters and prompts."""
    return {
        f"{prefix}.{name}"
        for prefix, module in model.named_modules()
        if getattr(module, "added", False)
        for name in module.state_dict()
    }
