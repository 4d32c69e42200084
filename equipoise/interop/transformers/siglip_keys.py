"""State-dict keys of transformers' `SiglipModel`; logit scale and bias are vectors of one number there."""

from __future__ import annotations

from equipoise.interop.key_mapping import TRANSPOSED, Conversion, KeyMap, KeyRule, renamed
from equipoise.interop.transformers.keys import blocks, pairs

ONE_NUMBER = Conversion(lambda ours: (ours[None],), lambda theirs: theirs[0].squeeze())
PROBE = Conversion(lambda ours: (ours[None],), lambda theirs: theirs[0][0])  # [1, w] and [1, 1, w]
HEAD = "vision_model.head"

KEY_MAP: KeyMap = {
    **renamed(
        *pairs("image_encoder.patches", "vision_model.embeddings.patch_embedding"),
        ("image_encoder.positions", "vision_model.embeddings.position_embedding.weight"),
        *pairs("image_encoder.ln_post", "vision_model.post_layernorm"),
        ("image_encoder.pool.attention.qkv.weight", f"{HEAD}.attention.in_proj_weight"),
        ("image_encoder.pool.attention.qkv.bias", f"{HEAD}.attention.in_proj_bias"),
        *pairs("image_encoder.pool.attention.out", f"{HEAD}.attention.out_proj"),
        *pairs("image_encoder.pool.ln", f"{HEAD}.layernorm"),
        *pairs("image_encoder.pool.mlp_in", f"{HEAD}.mlp.fc1"),
        *pairs("image_encoder.pool.mlp_out", f"{HEAD}.mlp.fc2"),
        ("text_encoder.words.weight", "text_model.embeddings.token_embedding.weight"),
        ("text_encoder.positions", "text_model.embeddings.position_embedding.weight"),
        *pairs("text_encoder.ln_final", "text_model.final_layer_norm"),
        ("text_readout.bias", "text_model.head.bias"),
    ),
    **blocks("image_encoder", "vision_model"),
    **blocks("text_encoder", "text_model"),
    "image_encoder.pool.probe": KeyRule((f"{HEAD}.probe",), PROBE),
    "text_readout.projection": KeyRule(("text_model.head.weight",), TRANSPOSED),
    "logit_scale": KeyRule(("logit_scale",), ONE_NUMBER),
    "logit_bias": KeyRule(("logit_bias",), ONE_NUMBER),
}
