"""The gradient norm of each term of a loss, before its weight: which term moves the weights.

    ‖∂ term / ∂ θ‖₂        θ all parameters that train

One backward pass per term, at the steps that are logged (`training.log_gradients`); the gradients of the step itself
are not touched. Terms are those of `Loss.terms`; a term that no parameter moves has 0. *Do not* add the norms up:
gradients of terms may point against each other.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import torch
from torch import Tensor, nn

from equipoise.encoders.recomputation import CHEAP
from equipoise.training.settings import Training
from equipoise.types import Loss, UserError


def require_gradients_possible(settings: Training, processes: int) -> None:
    """Raises UserError where a process does not hold the whole graph of a batch, or not long enough."""
    if settings.log_gradients and (settings.micro_batch or processes > 1):
        raise UserError(
            "training.log_gradients needs the whole batch at once in one process; leave out micro_batch and torchrun, "
            "or set log_gradients to false"
        )
    if settings.log_gradients and settings.recompute_activations == CHEAP:
        raise UserError(
            "training.log_gradients goes back through a pass once for each term, and recompute_activations = "
            f'"{CHEAP}" keeps it for one; set recompute_activations to true or false, or log_gradients to false'
        )


def with_term_gradients(loss: Loss, parameters: Iterable[nn.Parameter]) -> Loss:
    """The loss with the norms among its facts, as `gradient/TERM`; called before `backward`, which frees the graph."""
    trained = [parameter for parameter in parameters if parameter.requires_grad]
    norms = {f"gradient/{name}": _norm(term, trained) for name, term in loss.terms.items()}
    return replace(loss, facts=lambda: {**loss.facts(), **norms})


def _norm(term: Tensor, trained: list[nn.Parameter]) -> float:
    if not term.requires_grad:
        return 0.0
    found = torch.autograd.grad(term, trained, retain_graph=True, allow_unused=True)
    norms = [gradient.float().norm() for gradient in found if gradient is not None]
    return float(torch.stack(norms).norm()) if norms else 0.0
