"""open_clip beside us: what it takes to import it, in benchmarks and in tests."""

from __future__ import annotations

import torch

KEPT: list[torch.library.Library] = []  # a library's schemas live as long as the object


def make_torchvision_importable() -> None:
    """open_clip imports torchvision, which fails beside a torch it was not built for, for want of two schemas."""
    try:
        import torchvision  # noqa: F401
    except ImportError:
        return
    except RuntimeError:
        library = torch.library.Library("torchvision", "DEF")
        for name in ("nms", "qnms"):
            library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        KEPT.append(library)
