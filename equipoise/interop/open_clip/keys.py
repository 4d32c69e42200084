"""State-dict keys of a plain CLIP in open_clip and in OpenAI's own code, for ViTs and for ResNets."""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor

from equipoise.encoders import ResNet, ViT
from equipoise.interop.key_mapping import ONE_ROW, THIRDS, TRANSPOSED, KeyMap, KeyRule, StateDict, renamed, to_ours
from equipoise.types import UserError

NOT_WEIGHTS = ("attn_mask", "input_resolution", "context_length", "vocab_size")  # in OpenAI's files, beside the weights
CLASS, POOL = "visual.class_embedding", "visual.attnpool.c_proj.weight"  # keys of a ViT and of a ResNet alone
BOTH = ("weight", "bias")
STATISTICS = (*BOTH, "running_mean", "running_var", "num_batches_tracked")
BLOCK = (
    ("ln_1.", "ln_1."),
    ("attention.qkv.", "attn.in_proj_"),
    ("attention.out.", "attn.out_proj."),
    ("ln_2.", "ln_2."),
    ("mlp_in.", "mlp.c_fc."),
    ("mlp_out.", "mlp.c_proj."),
)


def blocks(ours: str, theirs: str, parts: tuple[tuple[str, str], ...] = BLOCK) -> Iterator[tuple[str, str]]:
    """Keys of a tower's blocks, which stand below `theirs` there."""
    for our_part, their_part in parts:
        for kind in BOTH:
            yield f"{ours}.transformer.blocks.*.{our_part}{kind}", f"{theirs}.*.{their_part}{kind}"


def norm(ours: str, theirs: str, kinds: tuple[str, ...] = BOTH) -> Iterator[tuple[str, str]]:
    return ((f"{ours}.{kind}", f"{theirs}.{kind}") for kind in kinds)


def _stages() -> Iterator[tuple[str, str]]:
    for stage in range(1, 5):
        ours, theirs = f"image_encoder.stages.layer{stage}.*", f"visual.layer{stage}.*"
        for number in range(1, 4):
            yield f"{ours}.conv{number}.weight", f"{theirs}.conv{number}.weight"
            yield from norm(f"{ours}.bn{number}", f"{theirs}.bn{number}", STATISTICS)
        yield f"{ours}.shortcut.1.weight", f"{theirs}.downsample.0.weight"  # theirs does not count the mean before it
        yield from norm(f"{ours}.shortcut.2", f"{theirs}.downsample.1", STATISTICS)


def _stem() -> Iterator[tuple[str, str]]:
    for number in range(1, 4):
        yield f"image_encoder.stem.conv{number}.weight", f"visual.conv{number}.weight"
        yield from norm(f"image_encoder.stem.bn{number}", f"visual.bn{number}", STATISTICS)


TEXT: KeyMap = renamed(
    ("text_encoder.words.weight", "token_embedding.weight"),
    ("text_encoder.positions", "positional_embedding"),
    ("text_readout.projection", "text_projection"),
    ("logit_scale", "logit_scale"),
    ("logit_bias", "logit_bias"),
    *norm("text_encoder.ln_final", "ln_final"),
    *blocks("text_encoder", "transformer.resblocks"),
)
VIT: KeyMap = {
    **TEXT,
    "image_encoder.class_token": KeyRule((CLASS,), ONE_ROW),
    **renamed(
        ("image_encoder.patches.weight", "visual.conv1.weight"),
        ("image_encoder.positions", "visual.positional_embedding"),
        ("image_readout.projection", "visual.proj"),
        *norm("image_encoder.ln_pre", "visual.ln_pre"),
        *norm("image_encoder.ln_post", "visual.ln_post"),
        *blocks("image_encoder", "visual.transformer.resblocks"),
    ),
}
RESNET: KeyMap = {
    **TEXT,
    **renamed(
        ("image_encoder.pool.positions", "visual.attnpool.positional_embedding"),
        ("image_readout.bias", "visual.attnpool.c_proj.bias"),
        *_stem(),
        *_stages(),
    ),
    "image_readout.projection": KeyRule((POOL,), TRANSPOSED),
    **{
        f"image_encoder.pool.attention.qkv.{kind}": KeyRule(
            tuple(f"visual.attnpool.{part}_proj.{kind}" for part in "qkv"), THIRDS
        )
        for kind in BOTH
    },
}


def key_map_for(image: ViT.Config | ResNet.Config) -> KeyMap:
    return VIT if isinstance(image, ViT.Config) else RESNET


def infer_key_map(state: StateDict, where: str = "the given state") -> KeyMap:
    """Keys of a ViT or of a ResNet, whichever the state dict has; raises UserError where it has neither."""
    if "visual.conv1.weight" in state and CLASS in state:
        return VIT
    if "visual.conv1.weight" in state and POOL in state:
        return RESNET
    raise UserError(
        f"{where} holds not the weights of a plain open_clip ViT or ResNet: visual.conv1.weight is missing, or there "
        f"is neither {CLASS} nor {POOL}"
    )


def from_open_clip(state: StateDict) -> dict[str, Tensor]:
    """State dict of a plain CLIP under our keys."""
    return to_ours(state, infer_key_map(state))
