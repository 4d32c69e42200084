"""Our losses beside those of other libraries on the same tensors: `python benchmarks/losses.py [--pairs 1024 8192]`.

    value, gradient   differences of the loss and of the gradients of vectors and scale, relative to theirs, in float32
    memory            most bytes held at once during forward and backward, above the vectors: ours / theirs
    time              of forward and backward, the median of `--repeats` turns that each takes: ours / theirs

On the CPU, and on a GPU where there is one. Peers: open_clip's ClipLoss and SigLipLoss, the pseudo-code of SigLIP's
paper (Algorithm 1), and sentence-transformers' MultipleNegativesRankingLoss in both directions; a library that is not
installed has no row.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import torch
from open_clip_peer import make_torchvision_importable
from torch import Tensor, nn
from torch.nn import functional as F
from torch.profiler import ProfilerActivity, profile

from equipoise import losses

Loss = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]  # features of images and texts, exp(t), bias
SCALE, BIAS = 14.3, -10.0


def siglip_paper(u: Tensor, v: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
    """Zhai et al. 2023, Algorithm 1."""
    labels = 2 * torch.eye(len(u), device=u.device) - 1
    return -F.logsigmoid(labels * (scale * u @ v.T + bias)).sum() / len(u)


class Given(nn.Module):
    """A model whose embeddings are handed in."""

    def forward(self, features: dict[str, Tensor]) -> dict[str, Tensor]:
        return features


def sentence_transformers() -> Loss:
    from sentence_transformers.losses import MultipleNegativesRankingLoss

    directions = {"directions": ("query_to_doc", "doc_to_query"), "partition_mode": "per_direction"}

    def compare(u: Tensor, v: Tensor, scale: Tensor, _: Tensor) -> Tensor:
        loss = MultipleNegativesRankingLoss(Given(), scale=scale, **directions)
        return loss([{"sentence_embedding": u}, {"sentence_embedding": v}], None)

    return compare


def open_clip(name: str) -> Loss:
    from open_clip import loss

    made = getattr(loss, name)()
    return lambda u, v, scale, bias: made(u, v, scale, bias) if name == "SigLipLoss" else made(u, v, scale)


def rows() -> dict[tuple[str, str], tuple[Callable[[], Loss], Callable[[], nn.Module]]]:
    return {
        ("CLIPLoss", "open_clip ClipLoss"): (lambda: open_clip("ClipLoss"), losses.CLIPLoss),
        ("CLIPLoss", "sentence-transformers, both directions"): (sentence_transformers, losses.CLIPLoss),
        ("SigLIPLoss", "open_clip SigLipLoss"): (lambda: open_clip("SigLipLoss"), losses.SigLIPLoss),
        ("SigLIPLoss", "SigLIP, Algorithm 1"): (lambda: siglip_paper, losses.SigLIPLoss),
    }


def vectors(pairs: int, dim: int, device: str) -> list[Tensor]:
    make = torch.Generator().manual_seed(0)
    u = torch.randn(pairs, dim, generator=make)
    v = u + 2 * torch.randn(pairs, dim, generator=make)
    return [x.to(device) for x in (u, v, torch.tensor(SCALE), torch.tensor(BIAS))]


def once(loss: Loss, given: list[Tensor]) -> list[Tensor]:
    leaves = [x.clone().requires_grad_() for x in given]
    u, v = (F.normalize(x, dim=-1) for x in leaves[:2])  # sentence-transformers would, and change gradients by it
    value = loss(u, v, *leaves[2:])
    value.backward()
    return [value.detach(), *(x.grad for x in leaves[:3] if x.grad is not None)]


def peak(loss: Loss, given: list[Tensor]) -> int:
    if given[0].is_cuda:
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        once(loss, given)
        return torch.cuda.max_memory_allocated() - before
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
        once(loss, given)
    held, most = 0, 0
    for event in seen.profiler.kineto_results.events():
        if event.name() == "[memory]":
            held += event.nbytes()
            most = max(most, held)
    return most


def seconds(loss: Loss, given: list[Tensor]) -> float:
    if given[0].is_cuda:
        torch.cuda.synchronize()
    start = time.perf_counter()
    once(loss, given)
    if given[0].is_cuda:
        torch.cuda.synchronize()
    return time.perf_counter() - start


def row(ours: Loss, theirs: Loss, given: list[Tensor], repeats: int) -> list[str]:
    found, expected = once(ours, given), once(theirs, given)
    value, *grads = (float((a - b).norm() / b.norm()) for a, b in zip(found, expected, strict=True))
    bytes_ours, bytes_theirs = peak(ours, given), peak(theirs, given)
    turns = [(seconds(ours, given), seconds(theirs, given)) for _ in range(repeats)]
    ratio = statistics.median(a for a, _ in turns) / statistics.median(b for _, b in turns)
    memory = f"{bytes_ours:,} / {bytes_theirs:,}"
    return [f"{value:.0e}", f"{max(grads):.0e}", memory, f"{bytes_ours / bytes_theirs:.2f}", f"{ratio:.2f}"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, nargs="+", default=[1024, 8192])
    parser.add_argument("--dim", type=int, default=512)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    make_torchvision_importable()
    print("| device | pairs | ours | beside | value | gradient | bytes, ours / theirs | memory | time |")
    print("|---|---:|---|---|---:|---:|---:|---:|---:|")
    for device in ("cpu", *(("cuda",) if torch.cuda.is_available() else ())):
        for pairs in options.pairs:
            given = vectors(pairs, options.dim, device)
            for (ours, peer), (make_theirs, make_ours) in rows().items():
                try:
                    theirs = make_theirs()
                except ModuleNotFoundError as missing:
                    print(f"| {device} | {pairs:,} | {ours} | {peer} | {missing.name} is not installed | | | | |")
                    continue
                cells = row(make_ours(), theirs, given, options.repeats)
                print(f"| {device} | {pairs:,} | {ours} | {peer} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
