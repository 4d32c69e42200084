"""CLIP with several class tokens, as Sun & Li 2024 released it (clip-mtob): keys, sizes, and settings of ours.

A ViT with m class tokens, each with a position of its own; a text tower with post-LN blocks behind a LayerNorm of the
embeddings, whose class token stands m times before the words, beside the 77 of a caption; one linear map per tower for
all tokens, a product of m spheres compared by the inner product. With m = 1 it is their reference model, on a sphere.
Heads are 64 wide, which weights do not say. Images are prepared as CLIP's; the tokenizer is BERT's (WordPiece), which
is not in their file. Their released forward pass does not multiply by exp(t), which is read all the same.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from equipoise.data.preprocess import Preprocess
from equipoise.encoders import IMAGE_ENCODERS, TEXT_ENCODERS, TextTransformer, ViT
from equipoise.interop.key_mapping import ONE_ROW, KeyMap, KeyRule, StateDict, renamed
from equipoise.interop.open_clip.keys import blocks, norm
from equipoise.interop.plain_clip import chosen, logit_scale, preprocess_settings
from equipoise.types import UserError

MARK, CLASS = "ln_embedding.weight", "visual.class_embedding"
HEAD = 64  # width of a head
LAYER = (
    ("ln_1.", "norm1."),
    ("attention.qkv.", "self_attn.in_proj_"),
    ("attention.out.", "self_attn.out_proj."),
    ("ln_2.", "norm2."),
    ("mlp_in.", "linear1."),
    ("mlp_out.", "linear2."),
)
KEYS: KeyMap = renamed(
    ("image_encoder.class_token", CLASS),
    ("image_encoder.patches.weight", "visual.conv1.weight"),
    ("image_encoder.positions", "visual.positional_embedding"),
    ("image_readout.projection", "visual.proj"),
    *norm("image_encoder.ln_pre", "visual.ln_pre"),
    *norm("image_encoder.ln_post", "visual.ln_post"),
    *blocks("image_encoder", "visual.transformer.resblocks"),
    ("text_encoder.words.weight", "token_embedding.weight"),
    ("text_encoder.positions", "positional_embedding"),
    ("text_readout.projection", "text_projection"),
    ("logit_scale", "logit_scale"),
    *norm("text_encoder.ln_embedding", "ln_embedding"),
    *norm("text_encoder.ln_final", "ln_final"),
    *blocks("text_encoder", "transformer.encoder.layers", LAYER),
)


@dataclass(frozen=True)
class MultiCLIP:
    image: ViT.Config
    text: TextTransformer.Config
    n: int  # dimensions of a sphere
    m: int  # spheres, and class tokens
    vocabulary: int
    context: int  # of a caption, class tokens but one left out
    preprocess: Preprocess

    def settings(self, name: str, state: StateDict) -> dict[str, Any]:
        """Settings of a run that builds this model; `state` holds its logit scale."""
        several = self.m > 1
        return {
            "name": name,
            "tokens": {"kind": "file", "file": "tokenizer.json", "context": self.context},
            "preprocess": preprocess_settings(self.preprocess),
            "image": chosen(self.image, IMAGE_ENCODERS, "vit-b16"),
            "text": chosen(self.text, TEXT_ENCODERS, "bert-b"),
            "readout": {"name": "class_tokens", "beside_context": True} if several else {"name": "class_token"},
            "space": {"name": "product_sphere", "n": self.n, "m": self.m} if several else {"dim": self.n},
            "temperature": logit_scale(state),
            "objective": {"name": "clip"},
        }


def is_multi(state: StateDict) -> bool:
    return MARK in state


def multi_keys(state: StateDict) -> KeyMap:
    """The keys; a single class token may be a vector there."""
    one = CLASS in state and state[CLASS].ndim == 1
    return {**KEYS, "image_encoder.class_token": KeyRule((CLASS,), ONE_ROW)} if one else KEYS


def read_multi(state: StateDict, where: str) -> MultiCLIP:
    """The sizes that the weights have; raises UserError where a tensor that tells them is missing."""
    try:
        m = 1 if state[CLASS].ndim == 1 else len(state[CLASS])
        patches = len(state["visual.positional_embedding"]) - m
        width, _, patch, _ = state["visual.conv1.weight"].shape
        vocabulary, text_width = state["token_embedding.weight"].shape
        image_mlp = len(state["visual.transformer.resblocks.0.mlp.c_fc.weight"]) / width
        text_mlp = len(state["transformer.encoder.layers.0.linear1.weight"]) / text_width
        n, context = state["text_projection"].shape[1], len(state["positional_embedding"]) - (m - 1)
    except (KeyError, ValueError, IndexError, TypeError) as error:
        raise UserError(
            f"{where} has {MARK}, as weights of clip-mtob have, but not the other tensors of such a model ({error}); "
            "give the file as it was released"
        ) from None
    side = round(patches**0.5) if patches > 0 else 0
    if side * side != patches or not side or width < HEAD or text_width < HEAD:
        raise UserError(f"{where}: {patches} positions of patches, {m} class tokens and widths {width} and "
                        f"{text_width} are no model of clip-mtob; give the file as it was released")  # fmt: skip
    return MultiCLIP(
        ViT.Config(patch=patch, width=width, layers=_layers(state, "visual.transformer.resblocks"),
                   heads=width // HEAD, mlp_ratio=image_mlp),
        TextTransformer.Config(causal=False, width=text_width, layers=_layers(state, "transformer.encoder.layers"),
                               heads=text_width // HEAD, mlp_ratio=text_mlp, norm_first=False, embedding_norm=True),
        n, m, vocabulary, context, Preprocess(size=side * patch),
    )  # fmt: skip


def _layers(state: StateDict, prefix: str) -> int:
    numbers = (re.match(rf"{re.escape(prefix)}\.(\d+)\.", key) for key in state)
    return 1 + max((int(match[1]) for match in numbers if match), default=0)
