"""`equipoise import` and `equipoise export`: models of other libraries in and out."""

from __future__ import annotations

from pathlib import Path

from equipoise.config import dump
from equipoise.encoders import SiglipImage, ViT
from equipoise.interop import EXPORTS, ImportRequest, training_only_parts
from equipoise.io.atomic import replacing
from equipoise.io.numbers import hand_over
from equipoise.models.folder import save_model
from equipoise.models.model import Model, count_parameters
from equipoise.types import UserError
from equipoise.workflows.load import load, load_foreign


def import_model(path: str, out: Path, request: ImportRequest) -> None:
    """Write the model at `path`, of another library, as a model folder of ours, and print a line about it."""
    require_new(out)
    model, loaded = load_foreign(path, request)
    save_model(model, out, dump(loaded.table), {})
    print(f"{out} holds the model of {path}: {_about(model)}")
    hand_over({"folder": str(out), "parameters": count_parameters(model)})


def export_model(path: str, format: str, out: Path) -> None:
    """Write a model in the format of another library."""
    require_new(out)
    model = load(path)
    with replacing(out) as temporary:
        temporary.mkdir()
        EXPORTS[format](model, temporary)
    parts = training_only_parts(model)
    hand_over({"folder": str(out), "format": format, "parameters": count_parameters(model), "left_out": list(parts)})
    print(
        f"{out} holds the model for {format}" + (f"; left out, as training's own: {', '.join(parts)}" if parts else "")
    )


def _about(model: Model) -> str:
    image, prepared, t = model.image_encoder, model.preprocess, float(model.logit_scale.detach().exp())
    kind = "ResNet"
    if isinstance(image, (ViT, SiglipImage)):
        kind = f"{image.config.patch} px patches, {image.config.activation}"
    mean, std = (", ".join(f"{x:.4g}" for x in numbers) for numbers in (prepared.mean, prepared.std))
    return (
        f"{count_parameters(model):,} parameters; images {prepared.size} px, mean ({mean}), std ({std}), {kind}; texts "
        f"up to {model.tokens.context} of {model.tokens.size:,} tokens; {model.space.dim} dimensions; exp(t) = {t:.4g}"
    )


def require_new(out: Path) -> None:
    """Raises UserError where `out` is a file or a folder that is not empty."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UserError(f"{out} is there already; choose another folder for --out, or remove it")
