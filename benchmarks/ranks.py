"""What a contrastive loss costs on several ranks: `python benchmarks/ranks.py [--ranks 2 4] [--pairs 4096]` (Linux).

Loss and gradients of InfoNCE on N random pairs of d dimensions, N / ranks on each process, float32 on the CPU over
gloo: the three ways of `training.exchange` beside open_clip's `ClipLoss`. Every figure is that of the slowest, or the
largest, of the ranks. Each way has processes of its own, with one thread each. Memory is the highest resident size
during some passes above what it was before them, when the points were there and a small pass had loaded every library;
time is that of the fastest pass. Sent: what a rank wrote to its sockets in one pass. Gradient: how long it becomes,
once data-parallel training has averaged it, where 1 is right (open_clip #616).
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
import warnings
from collections.abc import Callable
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from open_clip_peer import make_torchvision_importable
from resident import Resident
from torch import Tensor

import equipoise as eq
from equipoise.kernels import contrast
from equipoise.kernels.sharding.context import sharded_batch
from equipoise.kernels.sharding.gather import gather_points

MEBIBYTE = 2**20
Loss = Callable[[Tensor, Tensor, Tensor], Tensor]  # of a rank's images and texts, and log_scale
PEERS = {  # flags of ClipLoss: local_loss, gather_with_grad
    "open_clip, local loss": (True, True),
    "open_clip, whole loss": (False, True),
    "open_clip, no gradient": (False, False),
}
LOCAL = "open_clip, local loss"
WAYS = ("everything", "gathered", "ring", *PEERS)


class Measured(NamedTuple):
    seconds: float
    peak: int  # bytes
    sent: int
    gradient: float


def loss_of(way: str, dim: int, tile: int) -> Loss:
    parts: dict[str, Any] = {"space": eq.Sphere(dim), "target": eq.OneHot(), "form": eq.CrossEntropy()}
    parts |= {"impl": "tiled", "tile": tile}
    if way in PEERS:
        import open_clip

        local, with_grad = PEERS[way]
        peer = open_clip.loss.ClipLoss(
            local_loss=local, gather_with_grad=with_grad, rank=dist.get_rank(), world_size=dist.get_world_size()
        )
        return lambda image, text, t: peer(image, text, t.exp())
    if way == "everything":
        return lambda image, text, t: contrast(gather_points(image), gather_points(text), log_scale=t, **parts)

    def shared(image: Tensor, text: Tensor, t: Tensor) -> Tensor:
        with sharded_batch(way, len(image)):
            return contrast(image, text, log_scale=t, **parts)

    return shared


def measure(way: str, pairs: int, dim: int, tile: int, repeats: int) -> Measured:
    world = dist.get_world_size()
    loss = loss_of(way, dim, tile)

    def gradients(inputs: list[Tensor], of: Loss = loss) -> Tensor:
        dist.barrier()
        return torch.autograd.grad(of(*inputs), inputs)[0]

    gradients(inputs_of(64, dim))
    inputs = inputs_of(pairs // world, dim)
    memory, times, before = Resident(), [], written()
    for _ in range(repeats):
        start = time.perf_counter()
        mine = gradients(inputs)
        times.append(time.perf_counter() - start)
    peak, sent = memory.peak(), (written() - before) // repeats
    true = gradients(inputs, loss_of("everything", dim, tile))
    return Measured(min(times), peak, sent, float(mine.norm() / true.norm()))


def inputs_of(pairs: int, dim: int) -> list[Tensor]:
    noise = torch.Generator().manual_seed(dist.get_rank())
    image = torch.randn(pairs, dim, generator=noise)
    text = image + torch.randn(pairs, dim, generator=noise)
    points = [torch.nn.functional.normalize(x, dim=1) for x in (image, text)]
    return [x.requires_grad_() for x in (*points, torch.tensor(2.6593))]


def written() -> int:
    """Bytes this process has written so far, to sockets too."""
    lines = Path("/proc/self/io").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("wchar")).split()[1])


def over_loopback() -> int:
    """Bytes that all processes of this machine have sent each other so far: NCCL's are in no process's own count."""
    lines = Path("/proc/net/dev").read_text().splitlines()
    return int(next(line for line in lines if line.strip().startswith("lo:")).split()[9])


def one_rank(rank: int, world: int, store: str, result: Connection, options: argparse.Namespace, way: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=world)
    result.send(measure(way, options.pairs, options.dim, options.tile, options.repeats))
    dist.barrier()
    os._exit(0)  # nothing to tidy up that a forked process owns


def on_ranks(world: int, options: argparse.Namespace, way: str) -> Measured:
    """The worst of all ranks."""
    fork = get_context("fork")
    with tempfile.TemporaryDirectory() as folder:
        ends = [fork.Pipe(duplex=False) for _ in range(world)]
        ranks = [
            fork.Process(target=one_rank, args=(rank, world, f"{folder}/store", end, options, way))
            for rank, (_, end) in enumerate(ends)
        ]
        for process in ranks:
            process.start()
        found = [receiver.recv() for receiver, _ in ends]
        for process in ranks:
            process.join()
    return Measured(*(max(values) for values in zip(*found, strict=True)))


def main() -> None:
    parser = argparse.ArgumentParser(description="Time, memory and traffic of a contrastive loss on several ranks.")
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--pairs", type=int, default=4096, help="of the whole batch")
    parser.add_argument("--dim", type=int, default=512)
    parser.add_argument("--tile", type=int, default=1024, help="side of a tile; small ones leave the points to be seen")
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=WAYS)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    make_torchvision_importable()
    import open_clip  # noqa: F401 (here, so that forked processes have it)

    warnings.filterwarnings("ignore", category=FutureWarning)  # of a function that open_clip calls
    print(f"InfoNCE on the sphere, N = {options.pairs:,}, d = {options.dim}, float32, gloo, {os.cpu_count()} cores")
    beside = LOCAL if LOCAL in options.ways else options.ways[-1]
    print(f"ratio: seconds over those of {beside}")
    columns = ("seconds", "ratio", "peak MiB", "sent MiB", "gradient")
    print(f"{'ranks':>5}  {'way':<24}" + "".join(f"{name:>14}" for name in columns))
    for world in options.ranks:
        found = {way: on_ranks(world, options, way) for way in options.ways}
        peer = found[beside].seconds
        for way, m in found.items():
            figures = (f"{m.seconds:.2f}", f"{m.seconds / peer:.2f}", f"{m.peak / MEBIBYTE:,.0f}",
                       f"{m.sent / MEBIBYTE:,.0f}", f"{m.gradient:.3f}")  # fmt: skip
            print(f"{world:>5}  {way:<24}" + "".join(f"{figure:>14}" for figure in figures), flush=True)


if __name__ == "__main__":
    main()
