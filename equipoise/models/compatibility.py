"""Compatibility of a model with a source, checked before anything is trained or measured."""

from __future__ import annotations

import math

from equipoise.data.source import Source, has_features, has_modalities
from equipoise.encoders.encoder import Encoder
from equipoise.models.modal_model import ModalModel
from equipoise.models.model import Model
from equipoise.types import UserError


def require_compatible(model: Model, source: Source) -> None:
    """Raise UserError where the encoders read something else than the source gives."""
    if isinstance(model, ModalModel) or has_modalities(source):
        require_modalities(model, source)
        return
    image, text = (source.image_width, source.text_width) if has_features(source) else (None, None)
    _require("image", "pictures", model.image_encoder, image)
    _require("text", "words", model.text_encoder, text)
    expected, actual = model.image_encoder.expects, (model.preprocess.mean, model.preprocess.std)
    if expected is not None and not _close(expected, actual):
        raise UserError(
            f"the image encoder was trained with mean {list(expected[0])} and std {list(expected[1])}, but preprocess "
            f"has {list(actual[0])} and {list(actual[1])}; set preprocess.mean and preprocess.std"
        )


def require_modalities(model: Model, source: Source, labels: bool = True) -> None:
    """Raise UserError where a source gives other modalities than the model reads, or other labels than it tells, unless
    these do not matter."""
    if not has_modalities(source):
        raise UserError(
            "this model reads named modalities, but the data holds images and texts; give data.name modalities or "
            "modal_worlds"
        )
    if not isinstance(model, ModalModel):
        raise UserError(
            f"the data holds the modalities {', '.join(source.modalities)}, but the model reads images and texts; set "
            'modalities.name to "named" and describe each under modalities.inputs'
        )
    for name, one in model.settings.inputs.items():
        if name not in source.modalities:
            raise UserError(
                f"the data has no modality {name} (it has {', '.join(source.modalities)}); change modalities.inputs or "
                "the data"
            )
        if source.modalities[name] != one.width:
            raise UserError(
                f"{name} is {source.modalities[name]} wide, but the model expects {one.width}; set "
                f"modalities.inputs.{name}.width"
            )
        if source.lengths[name] > one.length:
            raise UserError(
                f"{name} has up to {source.lengths[name]} steps, but the model was built for {one.length}; set "
                f"modalities.inputs.{name}.length"
            )
    if labels and model.settings.outputs and source.outputs != model.settings.outputs:
        found = {0: "no labels", 1: "labels that are numbers"}.get(source.outputs, f"{source.outputs} classes")
        raise UserError(
            f"the data has {found}, but modalities.outputs is {model.settings.outputs}; set it to {source.outputs}"
        )


def _close(expected: tuple[tuple[float, ...], ...], actual: tuple[tuple[float, ...], ...]) -> bool:
    """Equal but for rounding: files write 123.68 / 255 with all digits, people do not."""
    return all(
        len(one) == len(other) and all(math.isclose(a, b, rel_tol=1e-6) for a, b in zip(one, other, strict=True))
        for one, other in zip(expected, actual, strict=True)
    )


def _require(part: str, raw: str, encoder: Encoder, width: int | None) -> None:
    """Check one tower; `width` is that of the source's features, None where it gives `raw` pictures or words."""
    reads_features = encoder.reads == "features"
    if reads_features and width is None:
        raise UserError(
            f"the {part} encoder reads precomputed features, but the data holds {raw}; "
            f"write their features with `equipoise embed`, or choose another {part}.name"
        )
    if not reads_features and width is not None:
        ending = ' (or data.text to "" to use the captions)' if part == "text" else ""
        raise UserError(
            f'the data holds {part} features, but the encoder reads {raw}; set {part}.name to "precomputed"{ending}'
        )
    if reads_features and width != encoder.width:
        raise UserError(f"{part} features are {width} wide, but the encoder expects {encoder.width}; set {part}.width")
