"""transformers' config.json and preprocessor_config.json of a `CLIPModel`, to a plain CLIP and back.

Old files carry a hundred fields that have nothing to do with CLIP (how to generate text, names of labels): these are
known by name and ignored. `text_config_dict`, where it is not null, takes the place of `text_config`, as there.
The end token is `eos_token_id`; 2 is how old files say "the highest id".
"""

from __future__ import annotations

from typing import Any

from equipoise.data.preprocess import Preprocess
from equipoise.encoders import ResNet, SiglipImage, SiglipText, TextTransformer, ViT
from equipoise.interop.plain_clip import PlainCLIP
from equipoise.interop.strict_fields import Fields, positive_int, read_fields, square_side
from equipoise.interop.transformers import fields
from equipoise.types import UserError

HIGHEST = 2  # as eos_token_id
ACTIVATIONS = {"quick_gelu": "quick_gelu", "gelu": "gelu", "gelu_pytorch_tanh": "gelu_tanh", "relu": "relu"}


def read_config(config: Fields, images: Fields | None, where: str) -> tuple[PlainCLIP, int]:
    """Read both files, the second unless it is None; returns the id of the end token too."""
    model = read_fields(config, where, fields.MODEL, fields.MODEL_ONLY, fields.UNUSED)
    text = read_fields(
        _tower(model, "text_config"), f"{where}: text_config", fields.TEXT, fields.TEXT_ONLY, fields.UNUSED
    )
    vision = read_fields(
        _tower(model, "vision_config"), f"{where}: vision_config", fields.VISION, fields.VISION_ONLY, fields.UNUSED
    )
    size = square_side(vision["image_size"] or 224, f"{where}: image_size")
    plain = PlainCLIP(
        ViT.Config(patch=square_side(vision["patch_size"] or 32, f"{where}: patch_size"), **tower_sizes(vision, where)),
        TextTransformer.Config(**tower_sizes(text, where)),
        model["projection_dim"],
        text["vocab_size"],
        text["max_position_embeddings"],
        Preprocess(size) if images is None else read_images(images, size, where),
    )
    return plain, plain.vocabulary - 1 if text["eos_token_id"] == HIGHEST else text["eos_token_id"]


def read_images(images: Fields, size: int, where: str) -> Preprocess:
    where = f"{where}: preprocessor_config.json"
    images = read_fields(images, where, fields.IMAGES, fields.IMAGES_ONLY, fields.IMAGES_UNUSED)
    resized, cropped = one_edge(images["size"], "shortest_edge"), one_edge(images["crop_size"], "height", "width")
    if (resized, cropped) != (size, size):
        raise UserError(
            f"{where}: size is {images['size']!r} and crop_size {images['crop_size']!r}, but the image tower sees "
            f"{size} px, and only a shorter side and a square crop of as many can be read"
        )
    try:
        return Preprocess.from_json({"size": size, "mean": images["image_mean"], "std": images["image_std"]})
    except UserError as error:
        raise UserError(f"{where}: {error}") from error


def write_config(plain: PlainCLIP, start: int, end: int, pad: int) -> tuple[Fields, Fields]:
    """Fields of config.json and of preprocessor_config.json."""
    image, text = plain.image, plain.text
    if isinstance(image, ResNet.Config):
        raise UserError("transformers has no words for this model: its CLIP has no ResNet; export it --to open_clip")
    if plain.bias is not None:
        raise UserError(
            "transformers has no words for this model: its CLIP has no logit_bias; export it --to open_clip"
        )
    if plain.preprocess.resize != Preprocess.resize:
        raise UserError(
            "transformers has no words for this model: its CLIP keeps the ratio of images; export it --to open_clip"
        )
    if end == HIGHEST and plain.vocabulary - 1 != HIGHEST:
        raise UserError(f"transformers takes an end token of {HIGHEST} for the highest id; export it --to open_clip")
    words: Fields = {"model_type": "clip_text_model", "vocab_size": plain.vocabulary, **written_sizes(text)}
    words |= {"max_position_embeddings": plain.context, "projection_dim": plain.dim}
    words |= {"bos_token_id": start, "eos_token_id": end, "pad_token_id": pad}
    pictures: Fields = {"model_type": "clip_vision_model", "num_channels": 3, "patch_size": image.patch}
    pictures |= {"image_size": plain.preprocess.size, "projection_dim": plain.dim, **written_sizes(image)}
    config: Fields = {"architectures": ["CLIPModel"], "model_type": "clip", "projection_dim": plain.dim}
    config |= {"dtype": "float32", "text_config": words, "vision_config": pictures}
    size = plain.preprocess.size
    images: Fields = {"image_processor_type": "CLIPImageProcessor", "size": {"shortest_edge": size}}
    images |= {"crop_size": {"height": size, "width": size}, "resample": fields.BICUBIC, "rescale_factor": 1 / 255}
    images |= dict.fromkeys(fields.STEPS, True)
    return config, images | {"image_mean": list(plain.preprocess.mean), "image_std": list(plain.preprocess.std)}


def _tower(model: Fields, name: str) -> Fields:
    return model[f"{name}_dict"] or model[name] or {}


def tower_sizes(tower: Fields, where: str) -> dict[str, Any]:
    """Settings that both towers have."""
    width, hidden = tower["hidden_size"], tower["intermediate_size"]
    if tower["hidden_act"] not in ACTIVATIONS:
        known = ", ".join(ACTIVATIONS)
        raise UserError(f"{where}: hidden_act is {tower['hidden_act']!r}, but only {known} can be read")
    ratio = hidden / width
    if int(width * ratio) != hidden:
        ratio = (hidden + 0.5) / width  # rounded down to `hidden` again
    return {
        "width": width,
        "layers": tower["num_hidden_layers"],
        "heads": positive_int(tower["num_attention_heads"], f"{where}: num_attention_heads"),
        "mlp_ratio": ratio,
        "activation": ACTIVATIONS[tower["hidden_act"]],
    }


def written_sizes(tower: ViT.Config | TextTransformer.Config | SiglipImage.Config | SiglipText.Config) -> Fields:
    acts = {ours: theirs for theirs, ours in ACTIVATIONS.items()}
    return {
        "hidden_size": tower.width,
        "intermediate_size": int(tower.width * tower.mlp_ratio),
        "num_hidden_layers": tower.layers,
        "num_attention_heads": tower.heads,
        "hidden_act": acts[tower.activation],
        "layer_norm_eps": fields.EPSILON,
        "attention_dropout": 0.0,
    }


def one_edge(size: Any, *names: str) -> Any:
    """The one number of a size: its shorter side, or that of a square; None where it is neither."""
    if not isinstance(size, dict):
        return size
    first = size.get(names[0])
    return first if set(size) == set(names) and all(size[name] == first for name in names) else None
