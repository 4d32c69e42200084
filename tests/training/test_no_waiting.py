"""Between two reads of its numbers, a training step asks the GPU for nothing that it would have to wait for."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
import torch
from conftest import TINY_CODES
from torch.utils._python_dispatch import TorchDispatchMode

import equipoise as eq
from equipoise.config import load_run
from equipoise.data.batches import Batches
from equipoise.training.cuda_graphs import widths_differ
from equipoise.training.logging.running_mean import RunningMean
from equipoise.training.step import Step
from equipoise.workflows import build_model

READS = {"_local_scalar_dense", "nonzero", "masked_select", "is_nonzero", "equal", "unique_dim", "looked_at"}
RECIPES = {"CLIP": ("demo",), "FDT": ("fdt-scenes", *TINY_CODES)}


class Reads(TorchDispatchMode):
    """Notes operations whose result the processor needs, each of which would wait for a GPU. What an operation of our
    own does within itself is not seen: it may go another way there."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        by_mask = name == "index" and any(x is not None and x.dtype == torch.bool for x in args[1])
        if name in READS or by_mask:
            self.found.append(name)
        return func(*args, **(kwargs or {}))


def read(model: eq.Model, batch: eq.Batch) -> list[str]:
    with Reads() as reads:
        made = model(batch, ("image", "text"))
        (made.image * made.text).sum().backward()
    return reads.found


@pytest.mark.parametrize("name", RECIPES)
def test_towers_read_nothing_of_a_batch_whose_lengths_are_known(name, tiny_settings, tokens, batches):
    recipe, *settings = RECIPES[name]
    model = build_model(load_run(recipe, (*tiny_settings, *settings)).run, tokens).train()
    batch = batches.batch(0)
    assert read(model, batch) == []
    assert "nonzero" in read(model, replace(batch, lengths={}))


@pytest.mark.slow
@pytest.mark.parametrize("name", RECIPES)
def test_a_compiled_model_is_one_graph_and_compiled_twice_at_most(name, tiny_settings, tokens, batches):
    """Once for the first batch, once for texts of any number and width."""
    from torch._dynamo.testing import CompileCounter

    recipe, *settings = RECIPES[name]
    model = build_model(load_run(recipe, (*tiny_settings, *settings)).run, tokens).train()
    torch.compiler.reset()
    counter = CompileCounter()
    compiled = torch.compile(model, backend=counter, fullgraph=True)
    made = [batches.batch(number) for number in range(12)]
    assert len({batch.lengths["mask"].total for batch in made}) > 6
    for batch in made:
        widths_differ(batch)
        compiled(batch, ("image", "text"))
    assert counter.frame_count <= 2


@contextmanager
def errors_for_waiting() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*debug mode is a prototype")
        torch.cuda.set_sync_debug_mode("error")
        try:
            yield
        finally:
            torch.cuda.set_sync_debug_mode("default")


def gpu_run(name: str, tiny_settings: tuple[str, ...], tokens: Any, *further: str) -> tuple[Step, Batches]:
    recipe, *settings = RECIPES[name]
    run = load_run(recipe, (*tiny_settings, *settings, "training.steps=100", *further)).run
    torch.manual_seed(0)
    gpu = torch.device("cuda")
    step = Step(build_model(run, tokens).to(gpu).train(), run.objective, run.training, gpu)
    source = run.data.build("train")
    return step, Batches(source, tokens, run.preprocess, batch_size=16, seed=0, device=gpu, augment=run.augment)


@pytest.mark.parametrize("name", RECIPES)
@pytest.mark.parametrize("compiled", ["false", "true"])
@pytest.mark.parametrize("augmented", [(), ("augment.flip=0.5", "augment.jitter=0.5", "augment.grey=0.2")], ids=str)
@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_steps_between_two_logs_never_wait(name, compiled, augmented, tiny_settings, tokens):
    torch.compiler.reset()
    ways = ("training.precision=bf16", f"training.compile={compiled}", *augmented)
    step, batches = gpu_run(name, tiny_settings, tokens, *ways)
    made = [batches.make(number, "cpu") for number in range(16)]  # as worker processes make them
    shown = RunningMean()
    for number, each in enumerate(made[:10], 1):  # kernels are tried and compiled, memory is taken
        shown.add(step(batches._received(each), number).loss.total)
    step.finite.settle()
    shown.mean()
    with errors_for_waiting():
        for number, each in enumerate(made[10:], 11):
            shown.add(step(batches._received(each), number).loss.total)
    step.finite.settle()
    assert math.isfinite(shown.mean())


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_wait_would_be_seen(tiny_settings, tokens):
    """The control: without lengths the same steps wait, and raise."""
    step, batches = gpu_run("CLIP", tiny_settings, tokens, "training.precision=bf16")
    first, second = (batches.batch(number) for number in range(2))
    step(first, 1)
    with errors_for_waiting(), pytest.raises(RuntimeError, match="synchroniz"):
        step(replace(second, lengths={}), 2)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_the_loss_of_a_large_batch_never_waits():
    noise = torch.Generator("cuda").manual_seed(0)
    sphere = eq.Sphere(64)
    t = torch.tensor(2.0, device="cuda", requires_grad=True)

    def loss() -> torch.Tensor:
        points = (sphere.project(torch.randn(2304, 64, device="cuda", generator=noise)) for _ in range(2))
        u, v = (x.bfloat16().requires_grad_() for x in points)
        found = eq.contrast(u, v, space=sphere, target=eq.OneHot(), form=eq.CrossEntropy(), log_scale=t, impl="fused")
        found.backward()
        return found.detach()

    loss()
    with errors_for_waiting():
        made = [loss(), loss()]
    assert all(math.isfinite(float(one)) for one in made)
