"""Equipoise: contrastive image-text models on noisy pairs.

    import equipoise as eq

    model = eq.load("runs/demo")
    model.similarity(model.encode_image(["a.jpg"]), model.encode_text(["a red fish"]))

Names are imported when first used, so that `import equipoise` and `equipoise --help` are quick.
"""

from __future__ import annotations

from importlib import import_module

__version__ = "0.2.0"

TYPE_CHECKING = False  # as typing has it, which takes time to import: until then Ctrl-C finds no answer
if TYPE_CHECKING:  # the same names as in _HOME, for type checkers; `X as X` is how they are told that X is public
    from equipoise import losses as losses
    from equipoise import objectives as objectives
    from equipoise.analysis.explain import explain as explain
    from equipoise.data.scenes import Scenes as Scenes
    from equipoise.data.scenes import matches as matches
    from equipoise.evaluation.geometry import alignment as alignment
    from equipoise.evaluation.geometry import uniformity as uniformity
    from equipoise.forms import CrossEntropy as CrossEntropy
    from equipoise.forms import Divergence as Divergence
    from equipoise.forms import Sigmoid as Sigmoid
    from equipoise.kernels import contrast as contrast
    from equipoise.models.logit_scale import Temperature as Temperature
    from equipoise.models.model import Model as Model
    from equipoise.ops.sparsemax import sparsemax as sparsemax
    from equipoise.spaces import Euclidean as Euclidean
    from equipoise.spaces import ProductSphere as ProductSphere
    from equipoise.spaces import Sphere as Sphere
    from equipoise.spaces import geodesic_mix as geodesic_mix
    from equipoise.targets import Duplicates as Duplicates
    from equipoise.targets import Guide as Guide
    from equipoise.targets import OneHot as OneHot
    from equipoise.targets import Smoothed as Smoothed
    from equipoise.targets import Softened as Softened
    from equipoise.types import Batch as Batch
    from equipoise.types import Embeddings as Embeddings
    from equipoise.types import Loss as Loss
    from equipoise.types import UserError as UserError
    from equipoise.workflows import load as load

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
    "explain": "equipoise.analysis.explain",
    "geodesic_mix": "equipoise.spaces",
    "load": "equipoise.workflows",
    "losses": "equipoise",
    "matches": "equipoise.data.scenes",
    "objectives": "equipoise",
    "sparsemax": "equipoise.ops.sparsemax",
    "uniformity": "equipoise.evaluation.geometry",
}

__all__ = list(_HOME)


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'equipoise' has no attribute {name!r}")
    home = _HOME[name]
    return import_module(f"{home}.{name}") if home == "equipoise" else getattr(import_module(home), name)


def __dir__() -> list[str]:
    return __all__
