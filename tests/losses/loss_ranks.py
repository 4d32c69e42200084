"""What each of three ranks does in test_loss_ranks.py: towers under DDP, with our losses and open_clip's, beside one
process with the whole batch; mistakes of one rank; a group that passes nothing of the host."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import torch
import torch.distributed as dist
from open_clip_peer import make_torchvision_importable
from torch import Tensor, nn
from torch.distributed.fsdp import fully_shard
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel
from torch.profiler import ProfilerActivity, profile

from equipoise.kernels.sharding.host_numbers import gather_numbers
from equipoise.losses import CLIPLoss, CyCLIPLoss, DeCLIPLoss, M3MixLoss, SigLIPLoss, SoftCLIPLoss
from equipoise.spaces import ProductSphere
from equipoise.types import UserError

EACH, DIM = 5, 12
MANY, WIDE = 512, 64  # where memory is measured
GUIDED = {"guide": True}
CASES: dict[str, tuple[Callable, dict]] = {
    "clip": (CLIPLoss, {}),
    "siglip": (SigLIPLoss, {}),
    "softclip": (SoftCLIPLoss, {}),
    "softclip-guide": (SoftCLIPLoss, GUIDED),
    "cyclip": (CyCLIPLoss, {}),
    "geodesic": (lambda **how: CLIPLoss(space=ProductSphere(4, 3, distance="geodesic"), project=True, **how), {}),
    "duplicates": (lambda **how: CLIPLoss(target="duplicates", **how), {"caption": True}),
    "weighted": (CLIPLoss, {"weights": True}),
    "weighted-softclip": (SoftCLIPLoss, {"weights": True, **GUIDED}),
}
WHOLE = {"m3mix": (M3MixLoss, {}), "declip": (lambda **how: DeCLIPLoss(queue=64, **how), {"views": True})}
WAYS = ("auto", "everything", "gathered", "ring")


class Towers(nn.Module):
    """The smallest CLIP: a linear map per side, logit scale and bias."""

    def __init__(self) -> None:
        super().__init__()
        make = torch.Generator().manual_seed(7)
        for name in ("image", "text"):
            tower = nn.Linear(DIM, DIM, bias=False, dtype=torch.float64)
            tower.weight.data = torch.randn(DIM, DIM, generator=make, dtype=torch.float64)
            setattr(self, name, tower)
        self.logit_scale = nn.Parameter(torch.tensor([1.5], dtype=torch.float64))
        self.logit_bias = nn.Parameter(torch.tensor([-2.0], dtype=torch.float64))

    def forward(self, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        features = {"image_features": self.image(x), "text_features": self.text(y)}
        features = {name: F.normalize(vectors, dim=-1) for name, vectors in features.items()}
        return {**features, "logit_scale": self.logit_scale.exp(), "logit_bias": self.logit_bias}


def batch(total: int) -> dict[str, Tensor]:
    make = torch.Generator().manual_seed(1)
    x, y, guide = torch.randn(3, total, DIM, generator=make, dtype=torch.float64)
    weights = torch.rand(total, generator=make, dtype=torch.float64)
    return {"x": x, "y": y, "guide": guide, "weights": weights, "caption": torch.arange(total) // 2}


def step(model: nn.Module, loss: nn.Module, data: dict[str, Tensor], more: dict) -> list[Tensor]:
    """Loss and gradients of all parameters, after two batches: the second may depend on the first."""
    for _ in range(2):
        model.zero_grad()
        out = model(data["x"], data["y"])
        further = {name: data[name] for name in more if name in data}
        if more.get("views"):
            second = model(data["y"], data["x"])
            further |= {"image_view2": second["image_features"], "text_view2": second["text_features"]}
        value = sum(loss(**out, output_dict=True, **further).values())
        (2.5 * value).backward()
    return [value.detach(), *(parameter.grad for parameter in model.parameters())]


def difference(make: Callable, more: dict, way: str, wrap: Callable = DistributedDataParallel) -> float:
    """The largest difference between ranks and one process."""
    rank, world = dist.get_rank(), dist.get_world_size()
    data = batch(world * EACH)
    mine = {name: tensor[rank * EACH : (rank + 1) * EACH] for name, tensor in data.items()}
    found = step(wrap(Towers()), make(exchange=way), mine, more)
    found = [x.full_tensor() if hasattr(x, "full_tensor") else x for x in found]
    expected = step(Towers(), make(exchange="local"), data, more)
    return max(float((a - b).abs().max()) for a, b in zip(found, expected, strict=True))


def sharded(model: nn.Module) -> nn.Module:
    """Under FSDP2; parameters of one number stay whole there only in wrapped towers."""
    for tower in (model.image, model.text):
        fully_shard(tower)
    return fully_shard(model)


def beside_open_clip() -> dict[str, float]:
    """The same towers under DDP, by our losses and by open_clip's own exchange."""
    make_torchvision_importable()
    from open_clip.loss import ClipLoss, SigLipLoss

    rank, world = dist.get_rank(), dist.get_world_size()
    mine = {name: x[rank * EACH : (rank + 1) * EACH] for name, x in batch(world * EACH).items()}
    ranks = {"rank": rank, "world_size": world}
    peers = {
        "clip": (CLIPLoss(), ClipLoss(local_loss=True, gather_with_grad=True, **ranks)),
        "siglip": (SigLIPLoss(exchange="ring"), SigLipLoss(**ranks)),
    }
    found = {}
    for name, losses in peers.items():
        ours, theirs = (step(DistributedDataParallel(Towers()), loss, mine, {})[1:] for loss in losses)
        found[name] = max(float((a - b).abs().max()) for a, b in zip(ours, theirs, strict=True))
    return found


def mistakes() -> dict[str, str]:
    """What this rank is told when one rank makes a mistake."""
    rank = dist.get_rank()
    u = F.normalize(torch.randn(4, 8), dim=-1)
    narrow = F.normalize(u[:, :4], dim=-1)
    calls = {
        "sizes": lambda: CLIPLoss()(u[: 4 - (rank == 1)], u[: 4 - (rank == 1)], 10.0),
        "sizes of a mix": lambda: M3MixLoss()(u[: 4 - (rank == 2)], u[: 4 - (rank == 2)], 10.0),
        "normalised": lambda: CLIPLoss()(u, (1 + (rank == 1)) * u, 10.0),
        "widths": lambda: CLIPLoss()(u if rank else narrow, u if rank else narrow, 10.0),
        "local": lambda: CLIPLoss(exchange="local")(u[: 4 - rank], u[: 4 - rank], 10.0),
    }
    said = {}
    for name, call in calls.items():
        try:
            said[name] = f"no error: {float(call()):.3f}"
        except UserError as error:
            said[name] = str(error)
    return said


def peak(way: str) -> int:
    """The most bytes that a loss and its gradients take at once on this rank, beside its own features."""
    features = [F.normalize(torch.randn(MANY, WIDE), dim=-1).requires_grad_() for _ in range(2)]
    loss = CLIPLoss(exchange=way)
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
        loss(*features, 10.0).backward()
    held, most = 0, 0
    for event in seen.profiler.kineto_results.events():
        if event.name() == "[memory]":
            held += event.nbytes()
            most = max(most, held)
    return most


def main(out: Path, backend: str) -> None:
    dist.init_process_group(backend)
    rank = dist.get_rank()
    if backend != "gloo":  # one that passes nothing of the host
        found = {"numbers": gather_numbers(rank, 7), "again": gather_numbers(rank + 1)}
    else:
        differences = {f"{name}-{way}": difference(*case, way) for name, case in CASES.items() for way in WAYS}
        differences |= {f"{name}-auto": difference(*case, "auto") for name, case in WHOLE.items()}
        differences |= {f"fsdp-{way}": difference(SoftCLIPLoss, {}, way, sharded) for way in ("everything", "ring")}
        found = {
            "differences": differences,
            "open_clip": beside_open_clip(),
            "said": mistakes(),
            "peaks": {way: peak(way) for way in ("everything", "gathered", "ring")},
        }
    (out / f"{backend.replace(':', '-')}-{rank}.json").write_text(json.dumps(found))
    dist.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
