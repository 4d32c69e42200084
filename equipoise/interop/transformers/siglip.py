"""transformers' config.json and preprocessor_config.json of a `SiglipModel`, to a plain SigLIP and back.

SigLIP 2 at fixed resolution is a SiglipModel too. `siglip2` there is the one of any resolution (NaFlex), which our
towers are not.
"""

from __future__ import annotations

from typing import Any

from equipoise.data.preprocess import Preprocess
from equipoise.encoders import SiglipImage, SiglipText
from equipoise.interop.plain_siglip import BIAS, HALF, PlainSigLIP
from equipoise.interop.strict_fields import Fields, read_fields, square_side
from equipoise.interop.transformers import fields
from equipoise.interop.transformers.config import one_edge, tower_sizes, written_sizes
from equipoise.types import UserError

EPSILON = 1e-6
MODEL: dict[str, Any] = {"text_config": None, "vision_config": None}
TOWER: dict[str, Any] = {
    "hidden_size": 768,
    "intermediate_size": 3072,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "hidden_act": "gelu_pytorch_tanh",
}
TEXT: dict[str, Any] = {**TOWER, "vocab_size": 32000, "max_position_embeddings": 64, "projection_size": None}
VISION: dict[str, Any] = {**TOWER, "image_size": None, "patch_size": None}
TOWER_ONLY: dict[str, tuple[Any, ...]] = {"layer_norm_eps": (EPSILON,), "attention_dropout": (0,), "dropout": (0,)}
VISION_ONLY: dict[str, tuple[Any, ...]] = {**TOWER_ONLY, "num_channels": (3,), "vision_use_head": (True,)}
IMAGES: dict[str, Any] = {"size": None, "image_mean": list(HALF), "image_std": list(HALF)}
STEPS = ("do_resize", "do_rescale", "do_normalize", "do_convert_rgb")
IMAGES_ONLY: dict[str, tuple[Any, ...]] = {
    **fields.IMAGES_ONLY,
    "do_center_crop": (False, None),
    "resample": (fields.BICUBIC,),
}


def read_config(config: Fields, images: Fields | None, where: str) -> PlainSigLIP:
    """Read both files, the second unless it is None."""
    model = read_fields(config, where, MODEL, {"model_type": ("siglip",)}, fields.UNUSED)
    text = read_fields(model["text_config"] or {}, f"{where}: text_config", TEXT, TOWER_ONLY, fields.UNUSED)
    vision = read_fields(model["vision_config"] or {}, f"{where}: vision_config", VISION, VISION_ONLY, fields.UNUSED)
    width, projected = vision["hidden_size"], text["projection_size"] or text["hidden_size"]
    if projected != width:
        raise UserError(f"{where}: texts become {projected} numbers but images {width}; mend projection_size")
    size = square_side(vision["image_size"] or 224, f"{where}: image_size")
    patch = square_side(vision["patch_size"] or 16, f"{where}: patch_size")
    return PlainSigLIP(
        SiglipImage.Config(patch=patch, **tower_sizes(vision, where)),
        SiglipText.Config(**tower_sizes(text, where)),
        width,
        text["vocab_size"],
        text["max_position_embeddings"],
        Preprocess(size, HALF, HALF, "squash") if images is None else _read_images(images, size, where),
        BIAS,
    )


def _read_images(images: Fields, size: int, where: str) -> Preprocess:
    where = f"{where}: preprocessor_config.json"
    images = read_fields(images, where, IMAGES, IMAGES_ONLY, (*fields.IMAGES_UNUSED, "crop_size"))
    if one_edge(images["size"], "height", "width") != size:
        raise UserError(f"{where}: size is {images['size']!r}, but the image tower sees squares of {size} px")
    read = {"size": size, "mean": images["image_mean"], "std": images["image_std"], "resize_mode": "squash"}
    try:
        return Preprocess.from_json(read)
    except UserError as error:
        raise UserError(f"{where}: {error}") from error


def write_config(plain: PlainSigLIP, end: int, pad: int) -> tuple[Fields, Fields]:
    """Fields of config.json and of preprocessor_config.json."""
    if plain.preprocess.resize != "squash":
        raise UserError(
            "transformers has no words for this model: its images keep their ratio; set preprocess.resize to squash, "
            "or export it --to open_clip"
        )
    epsilon = {"layer_norm_eps": EPSILON}
    words: Fields = {"model_type": "siglip_text_model", "vocab_size": plain.vocabulary, **written_sizes(plain.text)}
    words |= {"max_position_embeddings": plain.context, "projection_size": plain.dim, **epsilon}
    words |= {"eos_token_id": end, "pad_token_id": pad, "bos_token_id": None}
    size = plain.preprocess.size
    pictures: Fields = {"model_type": "siglip_vision_model", "num_channels": 3, "patch_size": plain.image.patch}
    pictures |= {"image_size": size, **written_sizes(plain.image), **epsilon}
    config: Fields = {"architectures": ["SiglipModel"], "model_type": "siglip", "dtype": "float32"}
    config |= {"text_config": words, "vision_config": pictures}
    images: Fields = {"image_processor_type": "SiglipImageProcessor", "size": {"height": size, "width": size}}
    images |= {"resample": fields.BICUBIC, "rescale_factor": 1 / 255, **dict.fromkeys(STEPS, True)}
    return config, images | {"image_mean": list(plain.preprocess.mean), "image_std": list(plain.preprocess.std)}
