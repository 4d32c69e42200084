"""CLIPs of open_clip and of transformers, small enough for every test, with folders as those libraries write them."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from equipoise.data.tokenizer import CaptionTokenizer
from equipoise.models.model import Model

CAPTIONS = ["a red fish on a table", "a blue fish's tail", "the green star, 3 of them", "two cats"]
CONTEXT, SIZE = 16, 32
VISION = {
    "vit": {"image_size": SIZE, "layers": 2, "width": 24, "head_width": 8, "patch_size": 8, "mlp_ratio": 3.0},
    "resnet": {"image_size": 64, "layers": [1, 2, 1, 1], "width": 4, "head_width": 16, "patch_size": None},
}


def small_tokens() -> CaptionTokenizer:
    return CaptionTokenizer.train(CAPTIONS * 3, CaptionTokenizer.Config(vocabulary=600, context=CONTEXT))


def small_config(kind: str = "vit", tokens: CaptionTokenizer | None = None, **more: Any) -> dict[str, Any]:
    """An open_clip `model_cfg`."""
    vocabulary = (tokens or small_tokens()).size
    text = {"context_length": CONTEXT, "vocab_size": vocabulary, "width": 32, "heads": 4, "layers": 2}
    return {"embed_dim": 12, "vision_cfg": VISION[kind], "text_cfg": {**text, "hf_tokenizer_name": "own"}, **more}


def small_open_clip(open_clip: ModuleType, config: dict[str, Any]) -> nn.Module:
    torch.manual_seed(0)
    return disturbed(open_clip.model.CLIP(**config)).eval()


def small_transformers(
    transformers: ModuleType, tokens: CaptionTokenizer, act: str = "quick_gelu", **text: int
) -> nn.Module:
    torch.manual_seed(0)
    tower = {"num_hidden_layers": 2, "num_attention_heads": 4, "hidden_act": act}
    ids = {"bos_token_id": tokens.start, "eos_token_id": tokens.end, "vocab_size": tokens.size, **text}
    config = transformers.CLIPConfig(
        text_config={"hidden_size": 32, "intermediate_size": 100, "max_position_embeddings": CONTEXT, **ids, **tower},
        vision_config={"hidden_size": 24, "intermediate_size": 72, "image_size": SIZE, "patch_size": 8, **tower},
        projection_dim=12,
    )
    return disturbed(transformers.CLIPModel(config)).eval()


@torch.no_grad()
def disturbed(model: nn.Module) -> nn.Module:
    """Biases start at zero and norms at one: with everything disturbed, no two tensors can be swapped unnoticed."""
    for parameter in model.parameters():
        parameter.add_(0.05 * torch.randn_like(parameter))
    for name, buffer in model.named_buffers():
        if name.endswith("running_var"):
            buffer.uniform_(0.5, 2)
        elif name.endswith("running_mean"):
            buffer.add_(0.05 * torch.randn_like(buffer))
    return model


def write_open_clip(folder: Path, state: dict[str, Tensor], config: dict[str, Any], tokens: CaptionTokenizer) -> Path:
    """A folder as open_clip's hub functions write it."""
    folder.mkdir(parents=True)
    preprocess = {
        "mean": [0.5, 0.4, 0.3],
        "std": [0.2, 0.3, 0.4],
        "interpolation": "bicubic",
        "resize_mode": "shortest",
    }
    whole = {"model_cfg": config, "preprocess_cfg": preprocess}
    (folder / "open_clip_config.json").write_text(json.dumps(whole))
    save_file({name: tensor.contiguous() for name, tensor in state.items()}, folder / "open_clip_model.safetensors")
    tokens.save(folder)
    return folder


def write_transformers(folder: Path, peer: Any, tokens: CaptionTokenizer, transformers: ModuleType) -> Path:
    peer.save_pretrained(folder)
    transformers.CLIPImageProcessor(size={"shortest_edge": SIZE}, crop_size=SIZE).save_pretrained(folder)
    tokens.save(folder)
    return folder


def random_images(model: Model) -> Tensor:
    size = model.preprocess.size
    return torch.randn(3, 3, size, size, generator=torch.Generator().manual_seed(1))


@torch.no_grad()
def our_points(model: Model, images: Tensor) -> tuple[Tensor, Tensor]:
    return model.image_points(images), model.encode_text(CAPTIONS)


@torch.no_grad()
def their_points(peer: Any, images: Tensor, ids: Tensor) -> tuple[Tensor, Tensor]:
    """Of either library's model."""
    if hasattr(peer, "get_image_features"):
        both = peer(pixel_values=images, input_ids=ids)
        return both.image_embeds, both.text_embeds
    return peer.encode_image(images, normalize=True), peer.encode_text(ids, normalize=True)


def assert_same_points(model: Model, peer: Any, atol: float = 1e-5) -> None:
    images, (ids, _) = random_images(model), model.tokens(CAPTIONS, pad_to_context=True)
    for ours, theirs in zip(our_points(model, images), their_points(peer, images, ids), strict=True):
        assert ours.std() > 0.01
        torch.testing.assert_close(ours, theirs, rtol=0, atol=atol)


def assert_same_tensors(found: dict[str, Tensor], wanted: dict[str, Tensor]) -> None:
    """Bit for bit, in type and shape too."""
    assert found.keys() == wanted.keys()
    for name, tensor in wanted.items():
        assert found[name].dtype == tensor.dtype, name
        assert torch.equal(found[name], tensor), name
