"""State-dict keys of open_clip's CoCa.

torch's MultiheadAttention has one matrix for queries, keys and values where all have one width, and three where they
have not; its bias is always one. `apart` makes three of each, as attention to something else has them here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import torch
from torch import Tensor

from equipoise.interop.key_mapping import ONE_ROW, TRANSPOSED, Conversion, KeyMap, KeyRule, StateDict, renamed
from equipoise.interop.open_clip.keys import BLOCK, BOTH, CLASS, blocks, norm

WORDS = "text_decoder.text_projection"  # a key of these models alone
NOT_WEIGHTS = ("text.attn_mask", "text_decoder.attn_mask")  # in files of earlier versions
CROSS = re.compile(r"(visual\.attn_pool(?:_contrastive)?|text_decoder\.cross_attn\.\d+)\.attn\.in_proj_(weight|bias)")
HALVES = Conversion(
    lambda ours: [part.clone() for part in ours.chunk(2)], lambda theirs: torch.cat(list(theirs))
)  # keys, values
CROSS_BLOCK = (("ln_1", "ln_1"), ("ln_other", "ln_1_kv"), ("ln_2", "ln_2"), ("mlp_in", "mlp.c_fc"),
               ("mlp_out", "mlp.c_proj"))  # fmt: skip


def apart(state: StateDict) -> dict[str, Tensor]:
    """The state dict with the matrices and biases of attention to something else in three parts each."""
    found: dict[str, Tensor] = {}
    for key, tensor in state.items():
        match = CROSS.fullmatch(key)
        if match is None or len(tensor) % 3:
            found[key] = tensor
            continue
        for name, part in zip("qkv", tensor.chunk(3), strict=True):
            found[f"{match[1]}.attn.{name}_proj_{match[2]}"] = part
    return found


def _attention(ours: str, theirs: str) -> dict[str, KeyRule]:
    rules = renamed(*norm(f"{ours}.out", f"{theirs}.out_proj"))
    for kind in BOTH:
        rules |= renamed((f"{ours}.q.{kind}", f"{theirs}.q_proj_{kind}"))
        rules[f"{ours}.kv.{kind}"] = KeyRule(tuple(f"{theirs}.{part}_proj_{kind}" for part in "kv"), HALVES)
    return rules


def _pool(ours: str, theirs: str) -> dict[str, KeyRule]:
    return {
        **renamed(
            (f"{ours}.query", f"{theirs}.query"),
            *norm(f"{ours}.ln_q", f"{theirs}.ln_q"),
            *norm(f"{ours}.ln_k", f"{theirs}.ln_k"),
        ),
        **_attention(f"{ours}.attention", f"{theirs}.attn"),
    }


def _decoder() -> Iterator[tuple[str, str]]:
    for our_part, their_part in BLOCK:
        for kind in BOTH:
            yield f"heads.caption.decoder.own.blocks.*.{our_part}{kind}", f"text_decoder.resblocks.*.{their_part}{kind}"
    for ours, theirs in CROSS_BLOCK:
        yield from norm(f"heads.caption.decoder.cross.*.{ours}", f"text_decoder.cross_attn.*.{theirs}")
    yield from norm("heads.caption.decoder.ln_final", "text_decoder.ln_final")


KEY_MAP: KeyMap = {
    **renamed(
        ("image_encoder.vit.patches.weight", "visual.conv1.weight"),
        ("image_encoder.vit.positions", "visual.positional_embedding"),
        ("image_readout.projection", "visual.proj"),
        *norm("image_encoder.vit.ln_pre", "visual.ln_pre"),
        *norm("image_encoder.ln_post", "visual.ln_post"),
        *blocks("image_encoder.vit", "visual.transformer.resblocks"),
        ("text_encoder.words.weight", "text.token_embedding.weight"),
        ("text_encoder.positions", "text.positional_embedding"),
        ("text_encoder.class_token", "text.cls_emb"),
        ("text_readout.projection", "text.text_projection"),
        ("logit_scale", "logit_scale"),
        *norm("text_encoder.ln_final", "text.ln_final"),
        *blocks("text_encoder", "text.transformer.resblocks"),
        *_decoder(),
    ),
    "image_encoder.vit.class_token": KeyRule((CLASS,), ONE_ROW),
    **_pool("image_encoder.pool", "visual.attn_pool"),
    **_pool("image_encoder.class_pool", "visual.attn_pool_contrastive"),
    **_attention("heads.caption.decoder.cross.*.attention", "text_decoder.cross_attn.*.attn"),
    "heads.caption.words": KeyRule((WORDS,), TRANSPOSED),
}
