"""open_clip's `model_cfg` and `preprocess_cfg` of SigLIP and SigLIP 2, to a plain SigLIP and back.

The image tower is timm's, named by its sizes: `timm_model_name` is the only word for them, so that other sizes than
those of `siglip_names.py` cannot be written. In timm some of these have the exact GELU, others the one by tanh.
"""

from __future__ import annotations

from typing import Any

from equipoise.encoders import SiglipImage, SiglipText
from equipoise.interop.open_clip import fields
from equipoise.interop.open_clip.config import activation_of, read_preprocess, written_activation
from equipoise.interop.open_clip.siglip_names import BY_TANH, SIZES, TIMM, TIMM_NAMES, model_fields
from equipoise.interop.plain_siglip import BIAS, HALF, PlainSigLIP
from equipoise.interop.strict_fields import Fields, positive_int, read_fields, square_side
from equipoise.types import UserError

TEXT_FIELDS = {**fields.TEXT, "context_length": 64, "vocab_size": 32000, "width": 768, "heads": 12}
TEXT_ONLY = {
    **fields.TEXT_ONLY,
    "pool_type": ("last",),
    "no_causal_mask": (True,),
    "proj_bias": (True,),
    "norm_kwargs": ({"eps": 1e-6},),
    "tokenizer_kwargs": (*fields.NONE, {"clean": "canonicalize"}),
}
VISION_ONLY: dict[str, tuple[Any, ...]] = {"timm_pool": ("map",), "timm_proj": ("none",)}
VISION_UNUSED = ("timm_model_pretrained", "timm_drop", "timm_drop_path", "timm_proj_bias")


def is_siglip(config: Fields) -> bool:
    """Whether an open_clip_config.json, or its `model_cfg` alone, has a SigLIP's image tower."""
    model = config.get("model_cfg", config)
    vision = model.get("vision_cfg") if isinstance(model, dict) else None
    return isinstance(vision, dict) and TIMM.fullmatch(str(vision.get("timm_model_name"))) is not None


def read_config(config: Fields, where: str) -> tuple[PlainSigLIP, bool]:
    """Read an open_clip_config.json, or its `model_cfg` alone; returns too whether texts lose case and punctuation."""
    parts = read_fields(config if "model_cfg" in config else {"model_cfg": config}, where, fields.PARTS, {})
    only = {**fields.MODEL_ONLY, "custom_text": (True,), "quick_gelu": fields.OFF}
    model = read_fields(parts["model_cfg"], f"{where}: model_cfg", fields.MODEL, only, fields.MODEL_UNUSED)
    known = {"timm_model_name": "", "image_size": None}
    vision = read_fields(model["vision_cfg"], f"{where}: vision_cfg", known, VISION_ONLY, VISION_UNUSED)
    text = read_fields(
        model["text_cfg"],
        f"{where}: text_cfg",
        {**TEXT_FIELDS, "tokenizer_kwargs": None},
        TEXT_ONLY,
        fields.TEXT_UNUSED,
    )
    image, pixels = _image(vision["timm_model_name"])
    if (dim := positive_int(model["embed_dim"], f"{where}: embed_dim")) != image.width:
        raise UserError(
            f"{where}: embed_dim is {dim}, but the image tower is {image.width} wide, and no map follows it"
        )
    size = square_side(vision["image_size"] or pixels, f"{where}: vision_cfg: image_size")
    if size != pixels:
        timm = vision["timm_model_name"]
        raise UserError(f"{where}: image_size is {size}, but {timm} sees {pixels} px, whatever is said; mend one")
    prepared = {"mean": list(HALF), "std": list(HALF), "resize_mode": "squash", **(parts["preprocess_cfg"] or {})}
    words = SiglipText.Config(
        text["width"],
        text["layers"],
        text["heads"],
        text["mlp_ratio"],
        activation_of(False, text["act_kwargs"], f"{where}: text_cfg"),
    )
    bias = BIAS if model["init_logit_bias"] is None else float(model["init_logit_bias"])
    preprocess = read_preprocess(prepared, size, where)
    plain = PlainSigLIP(image, words, dim, text["vocab_size"], text["context_length"], preprocess, bias)
    return plain, bool(text["tokenizer_kwargs"])


def write_config(plain: PlainSigLIP, own_tokenizer: str) -> Fields:
    """Fields of an open_clip_config.json, whose tokenizer is in the same folder."""
    text = plain.text
    words: Fields = {"context_length": plain.context, "vocab_size": plain.vocabulary}
    words |= {"hf_tokenizer_name": own_tokenizer, "width": text.width, "heads": text.heads, "layers": text.layers}
    words |= {"mlp_ratio": text.mlp_ratio, "no_causal_mask": True, "proj_bias": True, "pool_type": "last"}
    words |= {"norm_kwargs": {"eps": 1e-6}, **written_activation(text.activation)}
    if text.activation not in ("gelu", "gelu_tanh"):
        raise UserError(f"open_clip has no words for this model: the activation of its texts is {text.activation}")
    size = plain.preprocess.size
    model = model_fields(plain.dim, _timm_name(plain.image, size), size, words, plain.bias)
    return {"model_cfg": model, "preprocess_cfg": plain.preprocess.to_json()}


def _image(timm: str) -> tuple[SiglipImage.Config, int]:
    match = TIMM.fullmatch(timm)
    assert match is not None
    width, layers, heads, ratio = SIZES[match[1]]
    act = "gelu_tanh" if timm.startswith(BY_TANH) else "gelu"
    return SiglipImage.Config(int(match[2]), width, layers, heads, ratio, act), int(match[3])


def _timm_name(image: SiglipImage.Config, size: int) -> str:
    names = (f"vit_{kind}_patch{image.patch}_siglip_{size}" for kind in SIZES)
    for name in names:
        if name in TIMM_NAMES and _same_sizes(_image(name)[0], image):
            return name
    raise UserError(
        "open_clip has no words for this model: its image tower has not the sizes of one of timm's SigLIP towers; "
        "export it --to transformers"
    )


def _same_sizes(one: SiglipImage.Config, other: SiglipImage.Config) -> bool:
    hidden = (int(config.width * config.mlp_ratio) for config in (one, other))
    sizes = ((config.width, config.layers, config.heads, config.activation) for config in (one, other))
    return len(set(hidden)) == 1 and len(set(sizes)) == 1
