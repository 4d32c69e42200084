"""Where the time of one training step on a GPU goes: `python benchmarks/profile_step.py --model ViT-B-32 --batch 4096`.

The kernels of a few steps by torch's profiler, in groups by their names, in milliseconds a step; `idle` is what is left
of the clock's time. --row names a row of `train_step.py`, --kernels lists so many of the longest kernels beneath.
"""

from __future__ import annotations

import argparse
import re
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from caption_lengths import drawn_lengths
from clip_sizes import MODELS
from train_step import BATCHES, Task, ours, trimmed

from equipoise.types import Batch

# a kernel belongs to the first group whose pattern its name has
GROUPS = {
    "attention": r"flash|fmha|attention|attend_short|softmax_backward|cudnn.*(sdpa|mha)",
    "contrast": r"(statistics|gradient)_of_(points|products)|^merge$|^paired$",
    "code book": r"best_tokens|gathered_sums|^thresholds$|RadixSort|bincount",
    "matrix products": r"gemm|nvjet|cutlass|xmma|cublas|splitK|wgmma",
    "optimizer and clipping": r"multi_tensor|adam|lpnorm|foreach",
    "copies": r"memcpy|memset|catarray|copy_kernel|triton_poi_fused_(cat|clone|stack|_to_copy_)*\d*$",
    "layer norms with sums beside": r"layer_norm",
    "activations": r"gelu|sigmoid",
    "8-bit rounding": r"float8|e4m3|amax_clamp|abs_amax|round_rows",
    "sums over tokens (biases)": r"triton_(red|per)_fused.*sum",
    "other element-wise": r"",
}


@dataclass(frozen=True)
class Kernel:
    name: str
    milliseconds: float  # a step
    launches: float  # a step


@dataclass(frozen=True)
class Profile:
    kernels: list[Kernel]
    milliseconds: float  # a step, by the clock without the profiler

    def groups(self) -> dict[str, list[Kernel]]:
        found: dict[str, list[Kernel]] = {name: [] for name in GROUPS}
        for kernel in self.kernels:
            group = next(name for name, seen in GROUPS.items() if re.search(seen, kernel.name, re.IGNORECASE))
            found[group].append(kernel)
        return found

    def table(self, longest: int = 0) -> str:
        rows = [(name, _total(kernels), sum(k.launches for k in kernels)) for name, kernels in self.groups().items()]
        rows.sort(key=lambda row: -row[1])
        rows += [("idle", self.milliseconds - _total(self.kernels), 0), ("all", self.milliseconds, 0)]
        lines = [f"{'':<30}{'ms a step':>10}{'share':>8}{'launches':>10}"]
        for name, spent, launches in rows:
            lines.append(f"{name:<30}{spent:>10.2f}{spent / self.milliseconds:>8.1%}{launches:>10.0f}")
        for kernel in sorted(self.kernels, key=lambda kernel: -kernel.milliseconds)[:longest]:
            lines.append(f"{kernel.milliseconds:>10.2f} ms {kernel.launches:>6.0f} x  {kernel.name[:150]}")
        return "\n".join(lines)


def profiled(step: Callable[[Batch], torch.Tensor], batches: list[Batch], steps: int) -> Profile:
    """The kernels of so many steps; `step` was compiled before."""

    def run() -> float:
        torch.cuda.synchronize()
        start = time.perf_counter()
        for number in range(steps):
            step(batches[number % len(batches)])
        torch.cuda.synchronize()
        return (time.perf_counter() - start) / steps * 1000

    milliseconds = run()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as seen:
        run()
    kernels = [
        Kernel(event.key, event.self_device_time_total / 1000 / steps, event.count / steps)
        for event in seen.key_averages()
        if event.device_type == torch.autograd.DeviceType.CUDA and not getattr(event, "is_user_annotation", False)
    ]
    return Profile(kernels, milliseconds)


def _total(kernels: list[Kernel]) -> float:
    return sum(kernel.milliseconds for kernel in kernels)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=MODELS, default="ViT-B-32")
    parser.add_argument("--batch", type=int, default=4096)
    parser.add_argument("--caption-length", type=float, default=20)
    parser.add_argument("--row", default="ours-compiled")
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--kernels", type=int, default=0)
    options = parser.parse_args()
    lengths = drawn_lengths(BATCHES * options.batch, options.caption_length).view(BATCHES, -1)
    task = Task(MODELS[options.model], lengths, "cuda", "bf16", 3, options.steps, 1)
    step, batches = ours(task, options.row.split("-")), [trimmed(batch) for batch in task.batches()]
    for batch in batches:
        step(batch)
    print(f"{options.model}, {options.batch} pairs a step, {options.row}, {torch.cuda.get_device_name()}")
    print(profiled(step, batches, options.steps).table(options.kernels))


if __name__ == "__main__":
    main()
