"""The model's passes as CUDA graphs: recorded once for each shape of batch, then replayed by one launch each.

A step of a small model is a thousand kernels that take microseconds, and the processor needs longer to launch them than
the GPU to run them. A replay runs the same kernels on the same memory, so inputs are copied into it and outputs out of
it. Recorded are the towers, readouts and heads, forward and backward; loss, clipping and optimizer stay as they are,
for they may ask the processor (a mixup's share, a ramp).

What is recorded must not depend on the processor either. Nothing in a model does, all its chance is the GPU's; but how
many words a batch has depends on the data, so recorded texts keep their padding (`encoders/packing.py`). Compiled
passes can be recorded too: fewer kernels, launched at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from equipoise.encoders.packing import Padded
from equipoise.ops.recording import recording
from equipoise.training.settings import Training
from equipoise.types import Batch, Embeddings, UserError

SHAPES = 16  # that are recorded; batches of further ones pass as they are. Captions are padded in steps of 4 tokens
Passes = Callable[[Batch, Sequence[str]], Embeddings]
WARM_UP = 3  # passes before the recording, in which libraries choose their kernels and take their memory
THREAD = "thread_local"  # a loader's thread may go on using the GPU while this one records
EXCLUDES = {  # settings that change what a step passes through, from step to step or within one
    "micro_batch": "passes each batch twice, in parts",
    "recompute_activations": "passes blocks a second time",
    "log_gradients": "differentiates each term by itself",
}


def require_recordable(settings: Training, device: torch.device, world: int) -> None:
    """Raises UserError where the passes of a run cannot be recorded."""
    asked = "training.cuda_graphs = true"
    if device.type != "cuda":
        raise UserError(f"{asked} needs an NVIDIA GPU, which {device} is not; leave it out")
    if world > 1:
        raise UserError(f"{asked} is of one process, and there are {world}; leave it out")
    if settings.probe.steps_of(settings.steps):
        raise UserError(f"{asked} needs one phase of training, and training.probe makes it two; leave one out")
    for name, does in EXCLUDES.items():
        if getattr(settings, name):
            raise UserError(f"{asked} cannot go with training.{name}, which {does}; leave one of them out")


class GraphedModel:
    """Calls `passes(batch, roles)`, by recordings: the model itself, or what torch.compile made of it."""

    def __init__(self, model: nn.Module, passes: Passes | None = None):
        self.model, self.passes = model, model if passes is None else passes
        self.recordings: dict[object, _Recording] = {}

    def __call__(self, batch: Batch, roles: Sequence[str]) -> Embeddings:
        inputs = _tensors(batch)
        key = (
            tuple(roles), self.model.training, torch.is_grad_enabled(),
            tuple((name, tuple(tensor.shape), tensor.dtype) for name, tensor in inputs.items()),
        )  # fmt: skip
        if key not in self.recordings:
            if len(self.recordings) >= SHAPES:
                return self.model(batch, roles)
            self.recordings[key] = _recorded(self.model, self.passes, batch, roles)
        recording = self.recordings[key]
        return Embeddings.of(dict(zip(recording.roles, recording(inputs), strict=True)))


class _Recording:
    """The passes of one shape of batch."""

    def __init__(self, model: nn.Module, passes: Passes, batch: Batch, roles: Sequence[str]):
        self.inputs = {name: tensor.clone() for name, tensor in _tensors(batch).items()}
        self.parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        self.upstream: list[Tensor] = []
        given = _batch_of(self.inputs, batch)
        if passes is not model:
            widths_differ(given)
        self._warm_up(lambda: passes(given, roles).roles())
        self.forward, self.backward = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.forward, capture_error_mode=THREAD):
            made = passes(given, roles).roles()
        self.roles, self.outputs = list(made), list(made.values())
        self.trained = [place for place, output in enumerate(self.outputs) if output.requires_grad]
        if not self.trained:
            return
        self.upstream = [torch.zeros_like(output) for output in self.outputs if output.requires_grad]
        with torch.cuda.graph(self.backward, pool=self.forward.pool(), capture_error_mode=THREAD):
            self.gradients = self._gradients(self.outputs, self.upstream)
        self.outputs = [output.detach() for output in self.outputs]

    def __call__(self, inputs: Mapping[str, Tensor]) -> tuple[Tensor, ...]:
        if not self.trained:
            return self.replay(inputs)
        return _Replayed.apply(self, inputs, *self.parameters)

    def replay(self, inputs: Mapping[str, Tensor]) -> tuple[Tensor, ...]:
        for name, tensor in inputs.items():
            self.inputs[name].copy_(tensor)
        self.forward.replay()
        return tuple(output.clone() for output in self.outputs)  # the next replay writes over them

    def _warm_up(self, call: Callable[[], Mapping[str, Tensor]]) -> None:
        """On a stream beside, as recordings are."""
        beside = torch.cuda.Stream()
        beside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(beside):
            for _ in range(WARM_UP):
                outputs = list(call().values())
                if torch.is_grad_enabled():
                    self._gradients(outputs, [torch.zeros_like(output) for output in outputs if output.requires_grad])
        torch.cuda.current_stream().wait_stream(beside)

    def _gradients(self, outputs: Sequence[Tensor], upstream: Sequence[Tensor]) -> tuple[Tensor | None, ...]:
        trained = [output for output in outputs if output.requires_grad]
        return torch.autograd.grad(trained, self.parameters, upstream, allow_unused=True)


class _Replayed(torch.autograd.Function):
    """A recording as one operation, with parameters as its inputs."""

    @staticmethod
    def forward(ctx: Any, recording: _Recording, inputs: Mapping[str, Tensor], *_: Tensor) -> tuple[Tensor, ...]:
        ctx.recording = recording
        outputs = recording.replay(inputs)
        ctx.mark_non_differentiable(*(out for place, out in enumerate(outputs) if place not in recording.trained))
        return outputs

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Any, ...]:
        recording: _Recording = ctx.recording
        for place, static in zip(recording.trained, recording.upstream, strict=True):
            given = grads[place]
            static.zero_() if given is None else static.copy_(given)
        recording.backward.replay()
        # the memory of the recording itself: the next replay comes after the optimizer is done with it
        return None, None, *(None if made is None else made.detach() for made in recording.gradients)


def _recorded(model: nn.Module, passes: Passes, batch: Batch, roles: Sequence[str]) -> _Recording:
    try:
        with _left_alone(model), _padded(model):
            with torch.no_grad():
                model(batch, roles)  # as it is, so that what is wrong with a batch is found
            with recording():
                return _Recording(model, passes, batch, roles)
    except torch.OutOfMemoryError:
        raise
    except RuntimeError as error:
        _free_chance()
        raise UserError(
            "training.cuda_graphs = true cannot record this model, which asks the processor on its way "
            f"({str(error).splitlines()[0]}); leave it out"
        ) from error


def _free_chance() -> None:
    """Let go of the generator: a recording that was broken off leaves it as if it went on, and later draws fail."""
    generator = torch.cuda.default_generators[torch.cuda.current_device()]
    generator.graphsafe_set_state(generator.clone_state())


def _tensors(batch: Batch) -> dict[str, Tensor]:
    """All that a model may read, by name."""
    own = {"images": batch.images, "tokens": batch.tokens, "mask": batch.mask, "index": batch.index}
    side = {f"side {name}": tensor for name, tensor in batch.side.items()}
    return own | side | {f"common {name}": tensor for name, tensor in batch.common.items()}


def _batch_of(tensors: Mapping[str, Tensor], like: Batch) -> Batch:
    side = {name: tensors[f"side {name}"] for name in like.side}
    common = {name: tensors[f"common {name}"] for name in like.common}
    images, tokens, mask, index = (tensors[name] for name in ("images", "tokens", "mask", "index"))
    return Batch(images, tokens, mask, index, side, common=common)


def widths_differ(batch: Batch) -> None:
    """Let torch.compile make one set of kernels for texts of any width."""
    for tensor in (batch.tokens, batch.mask):
        torch._dynamo.maybe_mark_dynamic(tensor, 1)


@contextmanager
def _left_alone(model: nn.Module) -> Iterator[None]:
    """Leave chance and running statistics as they were: the passes before a recording are not of the run."""
    before = [buffer.clone() for buffer in model.buffers()]
    with torch.random.fork_rng(devices=[torch.cuda.current_device()]):
        yield
    for buffer, value in zip(model.buffers(), before, strict=True):
        buffer.copy_(value)


@contextmanager
def _padded(model: nn.Module) -> Iterator[None]:
    """Let texts keep their padding."""
    readers: list[Any] = [module for module in model.modules() if hasattr(module, "lay_out")]
    for module in readers:
        module.lay_out = Padded.of
    try:
        yield
    finally:
        for module in readers:
            del module.lay_out
