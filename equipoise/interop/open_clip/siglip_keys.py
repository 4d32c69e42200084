"""State-dict keys of open_clip's SigLIP, whose image tower is timm's: the pool's query is a map of its own there."""

from __future__ import annotations

import torch

from equipoise.interop.key_mapping import TRANSPOSED, Conversion, KeyMap, KeyRule, renamed
from equipoise.interop.open_clip.keys import BOTH, blocks, norm

LATENT = "visual.trunk.attn_pool.latent"  # a key of these models alone
ONE_MORE = Conversion(lambda ours: (ours[None],), lambda theirs: theirs[0][0])  # [P, w] and [1, P, w]
QUERY_APART = Conversion(
    lambda ours: [part.clone() for part in ours.split([len(ours) // 3, len(ours) // 3 * 2])],
    lambda theirs: torch.cat(list(theirs)),
)  # queries; keys and values
BLOCK = (
    ("ln_1.", "norm1."),
    ("attention.qkv.", "attn.qkv."),
    ("attention.out.", "attn.proj."),
    ("ln_2.", "norm2."),
    ("mlp_in.", "mlp.fc1."),
    ("mlp_out.", "mlp.fc2."),
)
POOL = (("attention.out", "proj"), ("ln", "norm"), ("mlp_in", "mlp.fc1"), ("mlp_out", "mlp.fc2"))

KEY_MAP: KeyMap = {
    **renamed(
        *norm("image_encoder.patches", "visual.trunk.patch_embed.proj"),
        *norm("image_encoder.ln_post", "visual.trunk.norm"),
        *blocks("image_encoder", "visual.trunk.blocks", BLOCK),
        *(
            pair
            for ours, theirs in POOL
            for pair in norm(f"image_encoder.pool.{ours}", f"visual.trunk.attn_pool.{theirs}")
        ),
        ("text_encoder.words.weight", "text.token_embedding.weight"),
        ("text_encoder.positions", "text.positional_embedding"),
        ("text_readout.bias", "text.text_projection.bias"),
        ("logit_scale", "logit_scale"),
        ("logit_bias", "logit_bias"),
        *norm("text_encoder.ln_final", "text.ln_final"),
        *blocks("text_encoder", "text.transformer.resblocks"),
    ),
    "image_encoder.positions": KeyRule(("visual.trunk.pos_embed",), ONE_MORE),
    "image_encoder.pool.probe": KeyRule((LATENT,), ONE_MORE),
    "text_readout.projection": KeyRule(("text.text_projection.weight",), TRANSPOSED),
    **{
        f"image_encoder.pool.attention.qkv.{kind}": KeyRule(
            (f"visual.trunk.attn_pool.q.{kind}", f"visual.trunk.attn_pool.kv.{kind}"), QUERY_APART
        )
        for kind in BOTH
    },
}
