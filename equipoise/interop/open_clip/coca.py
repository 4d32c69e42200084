"""open_clip's `model_cfg` and `preprocess_cfg` of a CoCa, to settings of ours.

    {"embed_dim": 512, "vision_cfg": {...}, "text_cfg": {...}, "multimodal_cfg": {...}}

The class token of texts is masked as the released weights were trained, one place off (`encoders/coca_text.py`), unless
`text_cfg` says `correct_cls_mask`. The decoder's `mlp_ratio` and `attn_pooler_...` have no effect there, nor here.
"""

from __future__ import annotations

from typing import Any

from equipoise.encoders import CoCaImage, CoCaText
from equipoise.heads import CaptionHead
from equipoise.interop.open_clip import fields
from equipoise.interop.open_clip.config import activation_of, read_preprocess
from equipoise.interop.plain_coca import PlainCoCa
from equipoise.interop.strict_fields import Fields, positive_int, read_fields, square_side
from equipoise.types import UserError

ON = (True,)
POOLINGS = {True: "single", "parallel": "parallel", "cascade": "cascade"}
MODEL = {**fields.MODEL, "multimodal_cfg": None}
MODEL_ONLY = {**fields.MODEL_ONLY, "custom_text": (None, False, True), "init_logit_bias": (None,)}
MODEL_ONLY.pop("multimodal_cfg")
VISION = {**fields.VISION, "attentional_pool": None, "attn_pooler_queries": 256, "attn_pooler_heads": 8}
VISION_ONLY = {**fields.VISION_ONLY, "output_tokens": ON, "patch_dropout": (0, None)}
VISION_ONLY.pop("attentional_pool")
VISION_UNUSED = tuple(name for name in fields.VISION_UNUSED if name not in VISION)
TEXT = {**fields.TEXT, "correct_cls_mask": False, "pad_id": 0}
TEXT_ONLY = {**fields.TEXT_ONLY, "embed_cls": ON, "output_tokens": ON, "act_kwargs": fields.NONE}
DECODER: dict[str, Any] = {"width": 512, "heads": 8, "layers": 12, "context_length": 77, "vocab_size": 49408}
DECODER_ONLY: dict[str, tuple[Any, ...]] = {"ls_init_value": fields.OFF, "hf_model_name": fields.OFF}
DECODER_UNUSED = ("mlp_ratio", "dim_head", "n_queries", "attn_pooler_heads", "embed_cls", "output_tokens")
NAMES = {
    "coca_ViT-B-32": (512, {"layers": 12, "width": 768, "patch_size": 32}, {"width": 512, "heads": 8}),
    "coca_ViT-L-14": (768, {"layers": 24, "width": 1024, "patch_size": 14}, {"width": 768, "heads": 12}),
}


def is_coca(config: Fields) -> bool:
    """Whether an open_clip_config.json, or its `model_cfg` alone, has a decoder of captions."""
    model = config.get("model_cfg", config)
    return isinstance(model, dict) and bool(model.get("multimodal_cfg"))


def named_coca(name: str) -> Fields:
    """The `model_cfg` that open_clip has under one of `NAMES`."""
    dim, vision, words = NAMES[name]
    words = {**words, "layers": 12, "context_length": 76, "vocab_size": 49408}
    pooled = {"image_size": 224, "attentional_pool": True, "attn_pooler_heads": 8, "output_tokens": True}
    text = {**words, "embed_cls": True, "output_tokens": True}
    return {"embed_dim": dim, "vision_cfg": {**vision, **pooled}, "text_cfg": text, "multimodal_cfg": dict(words)}


def read_config(config: Fields, where: str) -> PlainCoCa:
    """Read an open_clip_config.json, or its `model_cfg` alone."""
    parts = read_fields(config if "model_cfg" in config else {"model_cfg": config}, where, fields.PARTS, {})
    model = read_fields(parts["model_cfg"], f"{where}: model_cfg", MODEL, MODEL_ONLY, fields.MODEL_UNUSED)
    vision = read_fields(model["vision_cfg"], f"{where}: vision_cfg", VISION, VISION_ONLY, VISION_UNUSED)
    text = read_fields(model["text_cfg"], f"{where}: text_cfg", TEXT, TEXT_ONLY, fields.TEXT_UNUSED)
    decoder = read_fields(model["multimodal_cfg"], f"{where}: multimodal_cfg", DECODER, DECODER_ONLY, DECODER_UNUSED)
    dim = positive_int(model["embed_dim"], f"{where}: embed_dim")
    _require_fit(dim, text, decoder, where)
    size = square_side(vision["image_size"] or 224, f"{where}: vision_cfg: image_size")
    act = "quick_gelu" if model["quick_gelu"] else "gelu"
    sizes = (text["width"], text["layers"], text["heads"], text["mlp_ratio"], act)
    return PlainCoCa(
        _image(vision, dim, model["quick_gelu"], f"{where}: vision_cfg"),
        CoCaText.Config(*sizes, legacy_mask=not text["correct_cls_mask"], pad=text["pad_id"]),
        CaptionHead.Config(decoder["layers"], decoder["heads"], 4.0, act),
        dim,
        text["vocab_size"],
        text["context_length"],
        read_preprocess(parts["preprocess_cfg"] or {}, size, where),
    )


def _require_fit(dim: int, text: Fields, decoder: Fields, where: str) -> None:
    """The decoder reads the text tower's words and what `embed_dim` queries found, by maps of one width."""
    for name, value in (("embed_dim", dim), ("text_cfg: width", text["width"])):
        if value != decoder["width"]:
            raise UserError(f"{where}: {name} is {value}, but the decoder is {decoder['width']} wide; mend one")
    if text["vocab_size"] != decoder["vocab_size"]:
        raise UserError(
            f"{where}: vocab_size is {text['vocab_size']} in text_cfg, but {decoder['vocab_size']} in multimodal_cfg; "
            "mend one"
        )


def _image(vision: Fields, dim: int, quick: bool, where: str) -> CoCaImage.Config:
    if not isinstance(vision["attentional_pool"], (bool, str)) or vision["attentional_pool"] not in POOLINGS:
        raise UserError(
            f"{where}: attentional_pool is {vision['attentional_pool']!r}, but only {', '.join(map(repr, POOLINGS))} "
            "can be read"
        )
    layers = positive_int(12 if vision["layers"] is None else vision["layers"], f"{where}: layers")
    return CoCaImage.Config(
        patch=square_side(vision["patch_size"] or 16, f"{where}: patch_size"),
        width=vision["width"],
        layers=layers,
        heads=vision["width"] // vision["head_width"],
        mlp_ratio=vision["mlp_ratio"],
        activation=activation_of(quick, vision["act_kwargs"], where),
        pooling=POOLINGS[vision["attentional_pool"]],
        queries=vision["attn_pooler_queries"],
        pooled=dim,
        pool_heads=vision["attn_pooler_heads"],
    )
