"""What tests of several folders share: the libraries we compare ourselves with or build on."""

from __future__ import annotations

from types import ModuleType

import pytest
import torch

KEPT: list[torch.library.Library] = []  # a library's schemas live as long as the object


@pytest.fixture(scope="session")
def open_clip() -> ModuleType:
    """The module open_clip; tests that ask for it are skipped where it is not installed."""
    _make_torchvision_importable()
    return pytest.importorskip("open_clip", reason="open_clip_torch is not installed: parity with it is NOT tested")


@pytest.fixture(scope="session")
def timm() -> ModuleType:
    _make_torchvision_importable()
    return pytest.importorskip("timm", reason="timm is not installed: image encoders by its names are NOT tested")


@pytest.fixture(scope="session")
def transformers() -> ModuleType:
    _make_torchvision_importable()
    return pytest.importorskip("transformers", reason="transformers is not installed: text encoders are NOT tested")


def _make_torchvision_importable() -> None:
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
