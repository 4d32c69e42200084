"""State-dict keys of transformers' `CLIPModel`: maps are transposed; queries, keys and values are separate tensors."""

from __future__ import annotations

from collections.abc import Iterator

from equipoise.interop.key_mapping import ONE_ROW, THIRDS, TRANSPOSED, KeyMap, KeyRule, renamed

NOT_WEIGHTS = ("text_model.embeddings.position_ids", "vision_model.embeddings.position_ids")  # written by older ones
BOTH = ("weight", "bias")
BLOCK = (
    ("ln_1", "layer_norm1"),
    ("attention.out", "self_attn.out_proj"),
    ("ln_2", "layer_norm2"),
    ("mlp_in", "mlp.fc1"),
    ("mlp_out", "mlp.fc2"),
)


def blocks(ours: str, theirs: str) -> dict[str, KeyRule]:
    our_block, their_block = f"{ours}.transformer.blocks.*", f"{theirs}.encoder.layers.*"
    split = {
        f"{our_block}.attention.qkv.{kind}": KeyRule(
            tuple(f"{their_block}.self_attn.{part}_proj.{kind}" for part in "qkv"), THIRDS
        )
        for kind in BOTH
    }
    return {
        **renamed(*(pair for part in BLOCK for pair in pairs(f"{our_block}.{part[0]}", f"{their_block}.{part[1]}"))),
        **split,
    }


def pairs(ours: str, theirs: str) -> Iterator[tuple[str, str]]:
    return ((f"{ours}.{kind}", f"{theirs}.{kind}") for kind in BOTH)


KEY_MAP: KeyMap = {
    **renamed(
        ("image_encoder.patches.weight", "vision_model.embeddings.patch_embedding.weight"),
        ("image_encoder.positions", "vision_model.embeddings.position_embedding.weight"),
        ("text_encoder.words.weight", "text_model.embeddings.token_embedding.weight"),
        ("text_encoder.positions", "text_model.embeddings.position_embedding.weight"),
        ("logit_scale", "logit_scale"),
        *pairs("image_encoder.ln_pre", "vision_model.pre_layrnorm"),  # sic
        *pairs("image_encoder.ln_post", "vision_model.post_layernorm"),
        *pairs("text_encoder.ln_final", "text_model.final_layer_norm"),
    ),
    **blocks("image_encoder", "vision_model"),
    **blocks("text_encoder", "text_model"),
    "image_encoder.class_token": KeyRule(("vision_model.embeddings.class_embedding",), ONE_ROW),
    "image_readout.projection": KeyRule(("visual_projection.weight",), TRANSPOSED),
    "text_readout.projection": KeyRule(("text_projection.weight",), TRANSPOSED),
}
