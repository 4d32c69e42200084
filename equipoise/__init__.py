"""Equipoise: contrastive image-text models on noisy pairs.

    import equipoise as eq

    model = eq.load("runs/demo")
    model.similarity(model.encode_image(["a.jpg"]), model.encode_text(["a red fish"]))

Names are imported when first used, so that `import equipoise` and `equipoise --help` are quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from equipoise import objectives
    from equipoise.data.scenes import Scenes, matches
    from equipoise.evaluation.geometry import alignment, uniformity
    from equipoise.forms import CrossEntropy, Divergence, Sigmoid
    from equipoise.kernels import contrast
    from equipoise.models.logit_scale import Temperature
    from equipoise.models.model import Model
    from equipoise.ops.sparsemax import sparsemax
    from equipoise.spaces import Euclidean, ProductSphere, Sphere, geodesic_mix
    from equipoise.targets import Duplicates, Guide, OneHot, Smoothed, Softened
    from equipoise.types import Batch, Embeddings, Loss, UserError
    from equipoise.workflows import load

_HOME = {
    "Batch": "equipoise.types",
    "CrossEntropy": "equipoise.forms",
    "Divergence": "equipoise.forms",
    "Duplicates": "equipoise.targets",
    "Embeddings": "equipoise.types",
    "Euclidean": "equipoise.spaces",
    "Guide": "equipoise.targets",
    "Loss": "equipoise.types",
    "Model": "equipoise.models.model",
    "OneHot": "equipoise.targets",
    "ProductSphere": "equipoise.spaces",
    "Scenes": "equipoise.data.scenes",
    "Sigmoid": "equipoise.forms",
    "Smoothed": "equipoise.targets",
    "Softened": "equipoise.targets",
    "Sphere": "equipoise.spaces",
    "Temperature": "equipoise.models.logit_scale",
    "UserError": "equipoise.types",
    "alignment": "equipoise.evaluation.geometry",
    "contrast": "equipoise.kernels",
    "geodesic_mix": "equipoise.spaces",
    "load": "equipoise.workflows",
    "matches": "equipoise.data.scenes",
    "objectives": "equipoise",
    "sparsemax": "equipoise.readouts",
    "uniformity": "equipoise.evaluation.geometry",
}

__all__ = [
    "Batch",
    "CrossEntropy",
    "Divergence",
    "Duplicates",
    "Embeddings",
    "Euclidean",
    "Guide",
    "Loss",
    "Model",
    "OneHot",
    "ProductSphere",
    "Scenes",
    "Sigmoid",
    "Smoothed",
    "Softened",
    "Sphere",
    "Temperature",
    "UserError",
    "alignment",
    "contrast",
    "geodesic_mix",
    "load",
    "matches",
    "objectives",
    "sparsemax",
    "uniformity",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'equipoise' has no attribute {name!r}")
    home = _HOME[name]
    return import_module(f"{home}.{name}") if home == "equipoise" else getattr(import_module(home), name)


def __dir__() -> list[str]:
    return __all__
