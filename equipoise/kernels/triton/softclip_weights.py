"""Losses of a softened contrast as weights of the five terms that `softclip_terms.py` numbers and computes."""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor

from equipoise.forms import CrossEntropy, Divergence, Form, OnHardTarget, StackedForms
from equipoise.forms.cross_entropy import SHARES


def has_weights(form: Form) -> bool:
    """Whether the form is a sum of the five terms."""
    if isinstance(form, OnHardTarget):
        return isinstance(form.form, CrossEntropy)
    return isinstance(form, Divergence) and form.kind in {"kl", "symmetric_kl"}


@cache
def weights_of(form: Form, device: torch.device) -> Tensor:
    """[losses, images and texts, terms], float64; cached, for to bring them to a GPU is to wait for it."""
    forms = form.forms if isinstance(form, StackedForms) else (form,)
    return torch.tensor([_weights(part) for part in forms], dtype=torch.float64, device=device)


def _weights(form: Form) -> list[list[float]]:
    if isinstance(form, OnHardTarget):
        assert isinstance(form.form, CrossEntropy)
        return [[0, 0, 0, 0, share] for share in SHARES[form.form.direction]]
    assert isinstance(form, Divergence)
    there_and_back = [0.5, 0.0] if form.kind == "kl" else [0.25, 0.25]
    side = [*there_and_back, 0, 0, 0] if form.among == "all" else [0, 0, *there_and_back, 0]
    return [side, side]
