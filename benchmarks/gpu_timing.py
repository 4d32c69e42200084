"""What benchmarks on a GPU share: milliseconds by events, memory above the inputs, where the time went."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator

import torch
from torch import Tensor

GIBIBYTE = 2**30


def measure(
    loss: Callable[..., Tensor], inputs: tuple[Tensor, ...], seconds: float
) -> tuple[float, float, tuple[Tensor, ...]]:
    """Milliseconds, bytes above the inputs, and the gradients."""
    on_gpu = inputs[0].is_cuda

    def once() -> tuple[Tensor, ...]:
        return torch.autograd.grad(loss(*inputs), inputs)

    once()  # compiles
    if on_gpu:
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated() if on_gpu else 0
    started = time.perf_counter()
    grads = once()
    if on_gpu:
        torch.cuda.synchronize()
    took = time.perf_counter() - started
    peak = torch.cuda.max_memory_allocated() - before if on_gpu else 0
    times = list(timed(once, on_gpu, seconds)) if took < 2 else [took * 1000]
    return statistics.median(times), peak, grads


def forward_time(loss: Callable[..., Tensor], inputs: tuple[Tensor, ...], seconds: float) -> float:
    with torch.no_grad():
        return statistics.median(timed(lambda: loss(*inputs), inputs[0].is_cuda, seconds))


def timed(work: Callable[[], object], on_gpu: bool, seconds: float) -> Iterator[float]:
    end = time.perf_counter() + seconds
    for number in range(50):
        if number >= 3 and time.perf_counter() > end:
            return
        if on_gpu:
            start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            work()
            stop.record()
            stop.synchronize()
            yield start.elapsed_time(stop)
        else:
            start_s = time.perf_counter()
            work()
            yield (time.perf_counter() - start_s) * 1000


def profile(loss: Callable[..., Tensor], inputs: tuple[Tensor, ...]) -> None:
    """The kernels of one forward and backward pass, longest first."""
    torch.autograd.grad(loss(*inputs), inputs)  # compiles
    activities = [torch.profiler.ProfilerActivity.CPU]
    if inputs[0].is_cuda:
        activities.append(torch.profiler.ProfilerActivity.CUDA)
        torch.cuda.synchronize()
    with torch.profiler.profile(activities=activities) as found:
        torch.autograd.grad(loss(*inputs), inputs)
        if inputs[0].is_cuda:
            torch.cuda.synchronize()
    by = "self_device_time_total" if inputs[0].is_cuda else "self_cpu_time_total"
    events = sorted(found.key_averages(), key=lambda event: -getattr(event, by))
    for event in events[:16]:
        if microseconds := getattr(event, by):
            print(f"{microseconds / 1000:>10.3f} ms {event.count:>6} x  {event.key[:100]}", flush=True)
