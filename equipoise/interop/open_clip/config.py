"""open_clip's `model_cfg` and `preprocess_cfg`, to a plain CLIP and back.

    {"model_cfg": {"embed_dim": 512, "quick_gelu": true, "vision_cfg": {...}, "text_cfg": {...}},
     "preprocess_cfg": {"mean": [...], ...}}

`quick_gelu` is one field for both towers; a ResNet's image tower has ReLUs whatever it says.
"""

from __future__ import annotations

from typing import Any

from equipoise.data.preprocess import Preprocess
from equipoise.encoders import ResNet, TextTransformer, ViT
from equipoise.interop.open_clip import fields
from equipoise.interop.plain_clip import PlainCLIP
from equipoise.interop.strict_fields import Fields, positive_int, read_fields, square_side
from equipoise.io.json_files import kind_of
from equipoise.types import UserError


class TokenizerFields:
    """Fields of a `text_cfg` that concern the tokenizer."""

    def __init__(self, text: Fields):
        self.has_own_tokenizer = bool(text["hf_tokenizer_name"])  # not CLIP's, but one whose files belong to the model
        self.end = text["eos_id"] if text["pool_type"] == "eos" else text["vocab_size"] - 1


def read_config(config: Fields, where: str) -> tuple[PlainCLIP, TokenizerFields]:
    """Read an open_clip_config.json, or its `model_cfg` alone."""
    if "model_cfg" not in config:
        config = {"model_cfg": config}
    parts = read_fields(config, where, fields.PARTS, {})
    model = read_fields(parts["model_cfg"], f"{where}: model_cfg", fields.MODEL, fields.MODEL_ONLY, fields.MODEL_UNUSED)
    vision = read_fields(
        model["vision_cfg"], f"{where}: vision_cfg", fields.VISION, fields.VISION_ONLY, fields.VISION_UNUSED
    )
    text = read_fields(model["text_cfg"], f"{where}: text_cfg", fields.TEXT, fields.TEXT_ONLY, fields.TEXT_UNUSED)
    size = square_side(vision["image_size"] or 224, f"{where}: vision_cfg: image_size")
    image = _image(vision, model["quick_gelu"], f"{where}: vision_cfg")
    plain = PlainCLIP(
        image,
        TextTransformer.Config(
            width=text["width"],
            layers=text["layers"],
            heads=text["heads"],
            mlp_ratio=text["mlp_ratio"],
            activation=activation_of(model["quick_gelu"], text["act_kwargs"], f"{where}: text_cfg"),
        ),
        positive_int(model["embed_dim"], f"{where}: embed_dim"),
        text["vocab_size"],
        text["context_length"],
        read_preprocess(parts["preprocess_cfg"] or {}, size, where),
        image_bias=isinstance(image, ResNet.Config),
        bias=model["init_logit_bias"],
    )
    return plain, TokenizerFields(text)


def read_preprocess(fields: Any, size: int, where: str) -> Preprocess:
    """Read a `preprocess_cfg`; the size is the image tower's where it has none."""
    if not isinstance(fields, dict):
        raise UserError(f"{where}: preprocess_cfg must be a table, not {kind_of(fields)}")
    try:
        read = Preprocess.from_json({"size": size, **fields})
    except UserError as error:
        raise UserError(f"{where}: {error}") from error
    if read.size != size:
        raise UserError(f"{where}: images are prepared at {read.size} px, but the image tower sees {size} px; mend one")
    return read


def write_config(plain: PlainCLIP, end: int, own_tokenizer: str) -> Fields:
    """Fields of an open_clip_config.json; `own_tokenizer` is its name where it is not CLIP's."""
    image, text = plain.image, plain.text
    acts = [text.activation] + ([image.activation] if isinstance(image, ViT.Config) else [])
    if "relu" in acts or ("quick_gelu" in acts and len(set(acts)) > 1):
        raise UserError(
            f"open_clip has no words for this model: its activations are {' and '.join(acts)}; "
            "export it --to transformers"
        )
    quick = "quick_gelu" in acts
    highest = plain.vocabulary - 1
    vision: Fields = {"image_size": plain.preprocess.size}
    if isinstance(image, ViT.Config):
        vision |= {"layers": image.layers, "width": image.width, "patch_size": image.patch}
        vision |= {"head_width": image.width // image.heads, "mlp_ratio": image.mlp_ratio}
        vision |= {"patch_dropout": image.patch_dropout, **written_activation(image.activation)}
    else:
        vision |= {"layers": list(image.layers), "width": image.width, "patch_size": None}
        vision |= {"head_width": 32 * image.width // image.heads}
    words: Fields = {"context_length": plain.context, "vocab_size": plain.vocabulary, "width": text.width}
    words |= {
        "heads": text.heads,
        "layers": text.layers,
        "mlp_ratio": text.mlp_ratio,
        **written_activation(text.activation),
    }
    words |= {"hf_tokenizer_name": own_tokenizer} if own_tokenizer else {}
    words |= {} if end == highest else {"pool_type": "eos", "eos_id": end}
    model: Fields = {"embed_dim": plain.dim, "quick_gelu": quick, "vision_cfg": vision, "text_cfg": words}
    model |= {} if plain.bias is None else {"init_logit_bias": plain.bias}
    return {"model_cfg": model, "preprocess_cfg": plain.preprocess.to_json()}


def _image(vision: Fields, quick: bool, where: str) -> ViT.Config | ResNet.Config:
    layers, width, head = vision["layers"], vision["width"], vision["head_width"]
    for count in layers if isinstance(layers, list) else [12 if layers is None else layers]:
        positive_int(count, f"{where}: layers")
    if isinstance(layers, list):
        if len(layers) != 4:
            raise UserError(f"{where}: layers is {layers}, but a ResNet has four stages")
        if vision["patch_dropout"] or vision["act_kwargs"]:
            raise UserError(f"{where}: a ResNet has neither patches to drop nor other activations than ReLU")
        return ResNet.Config(tuple(layers), width, 32 * width // head)  # type: ignore[arg-type]
    return ViT.Config(
        patch=square_side(vision["patch_size"] or 16, f"{where}: patch_size"),
        width=width,
        layers=12 if layers is None else layers,
        heads=width // head,
        mlp_ratio=vision["mlp_ratio"],
        activation=activation_of(quick, vision["act_kwargs"], where),
        patch_dropout=vision["patch_dropout"],
    )


def activation_of(quick: bool, options: Any, where: str) -> str:
    if not options:
        return "quick_gelu" if quick else "gelu"
    if not quick and options in ({"approximate": "tanh"}, {"approximate": "none"}):
        return "gelu_tanh" if options["approximate"] == "tanh" else "gelu"
    raise UserError(f"{where}: act_kwargs is {options!r}, which can be read only as {{'approximate': 'tanh'}}")


def written_activation(activation: str) -> Fields:
    return {"act_kwargs": {"approximate": "tanh"}} if activation == "gelu_tanh" else {}
