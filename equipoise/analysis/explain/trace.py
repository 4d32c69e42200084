"""One pass of pairs through both towers, and one backward pass: what every method of explanation reads.

Score of a batch: the sum over its pairs. Samples do not see each other in evaluation, so the gradient of the sum holds
each pair's own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from equipoise.analysis.explain.attention import Attended, Recorded
from equipoise.analysis.explain.places import Places, image_places, text_places
from equipoise.analysis.explain.score import Side, pair_scores
from equipoise.encoders import TextTransformer
from equipoise.encoders.packing import Padded
from equipoise.models.model import Model, evaluating
from equipoise.models.tower import Tower


@dataclass(frozen=True)
class Layer:
    """One layer's attention with the gradients of the score; N samples, h heads, Lq queries, Lk keys."""

    queries: Tensor  # [N, h, Lq, d]
    keys: Tensor  # [N, h, Lk, d]
    weights: Tensor  # A [N, h, Lq, Lk]
    grad: Tensor  # ∂s/∂A
    output_grad: Tensor  # ∂s/∂o [N, h, Lq, d], of o = A v

    @property
    def readers(self) -> Tensor:
        """How much the score depends on each row of this layer [N, Lq], summing to 1: ‖∂s/∂o_i‖. All of it on the
        class token in the last layer of a tower that is read there."""
        norms = self.output_grad.transpose(1, 2).flatten(2).norm(dim=-1)
        return norms / norms.sum(1, keepdim=True).clamp(min=torch.finfo(norms.dtype).tiny)


@dataclass(frozen=True)
class Trace:
    """A tower's, of L places."""

    layers: tuple[Layer, ...]  # none where attention does not tell places apart
    columns: Tensor  # [L] of the places in attention
    features: Tensor  # [N, L, w], of Grad-CAM's layer
    features_grad: Tensor  # [N, L, w]
    real: Tensor  # [N, L] bool; what is no place of a picture and no word has no relevance


@dataclass(frozen=True)
class Traced:
    scores: Tensor  # [N]
    image: Trace
    text: Trace


def trace(model: Model, images: Tensor, ids: Tensor, mask: Tensor, words: Tensor, part: Sequence[int] = ()) -> Traced:
    """Pairs of preprocessed images [N, 3, H, W] and token ids [N, L] with their masks: `mask` of real tokens, `words`
    of those that are parts of words."""
    image, text = _Watched(model.tower("image"), True), _Watched(model.tower("text"), False)
    with evaluating(model), torch.enable_grad():
        sides = image.run(images), text.run(ids, mask)
        scores = pair_scores(model, *sides, part)
        watched = [*image.tensors(), *text.tensors()]
        gradients = torch.autograd.grad(scores.sum(), watched, allow_unused=True)
    grads = [torch.zeros_like(one) if grad is None else grad for one, grad in zip(watched, gradients, strict=True)]
    split = len(image.tensors())
    places = image.count
    everywhere = torch.ones(len(images), places, dtype=torch.bool, device=images.device)
    return Traced(scores.detach(), image.trace(grads[:split], everywhere), text.trace(grads[split:], words & mask))


class _Watched:
    """A tower whose attention and features are kept while it runs."""

    def __init__(self, tower: Tower, pictures: bool):
        self.tower, self.pictures = tower, pictures
        self.places: Places = image_places(tower.encoder) if pictures else text_places(tower.encoder)
        self.hooked = None if tower.readout.reads_tokens else self.places.layer
        self.layers: list[Attended] = []
        self.features = torch.empty(0)
        self.count = 0  # places

    def run(self, *inputs: Tensor) -> Side:
        caught: list[Tensor] = []
        with _padded(self.tower.encoder), Recorded() as recorded, _catching(self.hooked, caught):
            features = self.tower.features(*inputs, with_tokens=True)
        assert features.tokens is not None
        self.layers = recorded.layers if self.places.attends else []
        self.features = caught[0] if caught else _in_graph(features.tokens)
        self.count = features.tokens.shape[1] if self.pictures else inputs[0].shape[1]
        return Side(features, self.tower.read(features))

    def tensors(self) -> list[Tensor]:
        return [self.features, *(tensor for one in self.layers for tensor in (one.weights, one.output))]

    def trace(self, grads: Sequence[Tensor], real: Tensor) -> Trace:
        layers = tuple(
            Layer(one.queries.detach(), one.keys.detach(), one.weights.detach(), grad, output_grad)
            for one, grad, output_grad in zip(self.layers, grads[1::2], grads[2::2], strict=True)
        )
        columns = torch.tensor(self.places.columns(self.count), device=real.device)
        return Trace(layers, columns, self._by_place(self.features.detach()), self._by_place(grads[0]), real)

    def _by_place(self, x: Tensor) -> Tensor:
        """Features, or their gradient, as [N, L, w]."""
        if self.hooked is None:
            return F.pad(x, (0, 0, -self.places.tokens_first, 0))[:, : self.count]
        if self.places.maps:
            return x.flatten(2).transpose(1, 2)
        return x[:, self.places.layer_rows(self.count)]


def _in_graph(x: Tensor) -> Tensor:
    """The same tensor; where all before it is frozen, the graph starts here."""
    return x if x.requires_grad else x.requires_grad_()


@contextmanager
def _catching(layer: nn.Module | None, caught: list[Tensor]) -> Iterator[None]:
    """Keep the output of a layer."""
    if layer is None:
        yield
        return

    def keep(_: nn.Module, __: object, output: Tensor) -> None:
        caught.append(_in_graph(output))

    handle = layer.register_forward_hook(keep)
    try:
        yield
    finally:
        handle.remove()


@contextmanager
def _padded(encoder: nn.Module) -> Iterator[None]:
    """Texts lie padded while they are explained: a row of every layer is then a token of every text."""
    if not isinstance(encoder, TextTransformer):
        yield
        return
    before = encoder.__dict__.get("lay_out")
    encoder.lay_out = Padded.of
    try:
        yield
    finally:
        if before is None:
            del encoder.lay_out
        else:
            encoder.lay_out = before
