"""The fields of open_clip's configs: those that are read, with its defaults; those that must have one value, for our
towers know no other; those that have no effect then."""

from __future__ import annotations

from typing import Any

OFF = (None, False)
NONE: tuple[Any, ...] = (None, {})
PARTS: dict[str, Any] = {"model_cfg": None, "preprocess_cfg": None}

MODEL: dict[str, Any] = {
    "embed_dim": None,
    "vision_cfg": None,
    "text_cfg": None,
    "quick_gelu": False,
    "init_logit_bias": None,
}
MODEL_ONLY: dict[str, tuple[Any, ...]] = {
    "custom_text": OFF,
    "nonscalar_logit_scale": OFF,
    "multimodal_cfg": OFF,
    "output_dict": OFF,
}
MODEL_UNUSED = ("init_logit_scale",)  # its trained value is among the weights

BLOCKS_ONLY: dict[str, tuple[Any, ...]] = {
    "ls_init_value": OFF,
    "norm_kwargs": NONE,
    "block_type": (None, "default"),
    "qk_norm": OFF,
    "scaled_cosine_attn": OFF,
    "scale_heads": OFF,
    "scale_attn_inner": OFF,
    "scale_attn": OFF,
    "scale_fc": OFF,
    "final_ln_after_pool": OFF,
    "output_tokens": OFF,
}

VISION: dict[str, Any] = {
    "layers": None,
    "width": 768,
    "head_width": 64,
    "mlp_ratio": 4.0,
    "patch_size": None,
    "image_size": None,
    "patch_dropout": 0.0,
    "act_kwargs": None,
}
VISION_ONLY: dict[str, tuple[Any, ...]] = {
    **BLOCKS_ONLY,
    "attentional_pool": OFF,
    "no_ln_pre": OFF,
    "pos_embed_type": ("learnable",),
    "pool_type": ("tok",),
    "timm_model_name": OFF,
}
VISION_UNUSED = (
    "attn_pooler_queries",
    "attn_pooler_heads",
    "timm_model_pretrained",
    "timm_pool",
    "timm_proj",
    "timm_proj_bias",
    "timm_drop",
    "timm_drop_path",
)

TEXT: dict[str, Any] = {
    "context_length": 77,
    "vocab_size": 49408,
    "width": 512,
    "heads": 8,
    "layers": 12,
    "mlp_ratio": 4.0,
    "act_kwargs": None,
    "pool_type": "argmax",
    "eos_id": 2,
    "hf_tokenizer_name": None,
}
TEXT_ONLY: dict[str, tuple[Any, ...]] = {
    **BLOCKS_ONLY,
    "tokenizer_mode": OFF,
    "tokenizer_kwargs": NONE,
    "embed_cls": OFF,
    "no_causal_mask": OFF,
    "pool_type": ("argmax", "eos"),
    "proj_bias": OFF,
    "proj_type": ("linear",),
    "hf_model_name": OFF,
}
TEXT_UNUSED = ("pad_id", "hf_model_pretrained", "hf_proj_type", "hf_pooler_type")
