"""open_clip's names of SigLIP and SigLIP 2, each with the `model_cfg` that it has there.

Two are not among them: ViT-SO400M-14-SigLIP-384, for 384 px cannot be cut into patches of 14 px, and
ViT-SO400M-16-SigLIP-i18n-256, which has no map behind its texts.
"""

from __future__ import annotations

import re

from equipoise.interop.strict_fields import Fields

SIZES = {  # width, layers, heads and MLP ratio of timm's image towers
    "base": (768, 12, 12, 4.0),
    "large": (1024, 24, 16, 4.0),
    "so400m": (1152, 27, 16, 3.7362),
    "giantopt": (1536, 40, 16, 4.0),
}
TIMM = re.compile(r"vit_(base|large|so400m|giantopt)_patch(\d+)_siglip_(\d+)")
BY_TANH = ("vit_base_patch32", "vit_large_patch16_siglip_512", "vit_so400m_patch16", "vit_giantopt")
LETTERS = {"B": "base", "L": "large", "SO400M": "so400m", "gopt": "giantopt"}
NAME = re.compile(r"ViT-(B|L|SO400M|gopt)-(\d+)-SigLIP(2?)(-i18n)?(?:-(\d+))?")
SIGLIP_NAMES = (
    *(f"ViT-B-16-SigLIP{kind}{size}" for kind in ("", "2") for size in ("", "-256", "-384", "-512")),
    *(f"ViT-L-16-SigLIP{kind}{size}" for kind in ("", "2") for size in ("-256", "-384")),
    *(f"ViT-SO400M-14-SigLIP{kind}{size}" for kind in ("", "2") for size in ("", "-378")),
    *(f"ViT-SO400M-16-SigLIP2{size}" for size in ("-256", "-384", "-512")),
    *(f"ViT-gopt-16-SigLIP2{size}" for size in ("-256", "-384")),
    *("ViT-B-32-SigLIP2-256", "ViT-L-16-SigLIP2-512", "ViT-B-16-SigLIP-i18n-256"),
)


def named_siglip(name: str) -> Fields:
    """The `model_cfg` that open_clip has under one of `SIGLIP_NAMES`."""
    match = NAME.fullmatch(name)
    assert match is not None
    letter, patch, second, languages, size = match.groups(default="")
    pixels, kind = int(size or 224), LETTERS[letter]
    wide, layers, heads, ratio = SIZES["so400m" if kind == "giantopt" else kind]
    text = {
        "context_length": 16 if name == "ViT-SO400M-14-SigLIP" else 64,
        "vocab_size": 256000 if second else 250000 if languages else 32000,
        "hf_tokenizer_name": "timm/" + (name if second or languages else "ViT-B-16-SigLIP"),
        "tokenizer_kwargs": {"clean": "canonicalize"},
        **{"width": wide, "heads": heads, "layers": layers},
        **({"mlp_ratio": ratio} if ratio != 4.0 else {}),
        **{"no_causal_mask": True, "proj_bias": True, "pool_type": "last", "norm_kwargs": {"eps": 1e-6}},
        **({"act_kwargs": {"approximate": "tanh"}} if second else {}),
    }
    return model_fields(SIZES[kind][0], f"vit_{kind}_patch{patch}_siglip_{pixels}", pixels, text, -10)


def model_fields(dim: int, timm: str, size: int, text: Fields, bias: float) -> Fields:
    vision = {"image_size": size, "timm_model_name": timm, "timm_model_pretrained": False}
    vision |= {"timm_pool": "map", "timm_proj": "none"}
    return {"embed_dim": dim, "init_logit_bias": bias, "custom_text": True, "vision_cfg": vision, "text_cfg": text}


TIMM_NAMES = {named_siglip(name)["vision_cfg"]["timm_model_name"] for name in SIGLIP_NAMES}
