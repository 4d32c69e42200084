"""A plain CLIP of ours as a folder of open_clip, or of transformers. Nothing is uploaded.

Both folders are complete: weights (safetensors), settings, preprocessing, tokenizer. A tokenizer that is not CLIP's own
travels with its files, which open_clip finds by `hf_tokenizer_name`.
"""

from __future__ import annotations

import json
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor

from equipoise.data.tokenizer import CaptionTokenizer
from equipoise.encoders import ViT
from equipoise.interop.key_mapping import Names, to_theirs
from equipoise.interop.load import IMAGES, OPEN_CLIP, OPEN_CLIP_WEIGHTS, TRANSFORMERS, TRANSFORMERS_WEIGHTS
from equipoise.interop.open_clip import config as open_clip_config
from equipoise.interop.open_clip import keys as open_clip_keys
from equipoise.interop.plain_clip import PlainCLIP
from equipoise.interop.strict_fields import Fields
from equipoise.interop.tokenizer import is_clips
from equipoise.interop.transformers import config as transformers_config
from equipoise.interop.transformers import keys as transformers_keys
from equipoise.models.model import Model

POOL_BIAS = "visual.attnpool.c_proj.bias"


def write_open_clip(model: Model, folder: Path) -> None:
    plain, tokens = PlainCLIP.of(model, "open_clip"), model.tokenizer
    own = "" if is_clips(tokens) else folder.name
    config = open_clip_config.write_config(plain, tokens.end, own)
    names = open_clip_keys.names_for(plain.image)
    needed = {} if isinstance(plain.image, ViT.Config) else {POOL_BIAS: torch.zeros(plain.dim)}  # ours may have none
    _write_json(folder / OPEN_CLIP, config)
    _write_weights(folder / OPEN_CLIP_WEIGHTS[0], {**needed, **_tensors(model, names)})
    _write_tokeniser(folder, tokens)


def write_transformers(model: Model, folder: Path) -> None:
    plain, tokens = PlainCLIP.of(model, "transformers"), model.tokenizer
    config, images = transformers_config.write_config(plain, tokens.start, tokens.end, tokens.pad)
    _write_json(folder / TRANSFORMERS, config)
    _write_json(folder / IMAGES, images)
    _write_weights(folder / TRANSFORMERS_WEIGHTS[0], _tensors(model, transformers_keys.NAMES))
    _write_tokeniser(folder, tokens)


def left_out(model: Model) -> list[str]:
    """Parts that serve training alone, which other libraries' files have no room for."""
    parts = [f"head {name}" for name in model.heads]
    return [*parts, *(["the map of regions"] if model.regions is not None else [])]


def _tensors(model: Model, names: Names) -> dict[str, Tensor]:
    return to_theirs({name: tensor.detach().cpu() for name, tensor in model.state_dict().items()}, names)


def _write_weights(path: Path, tensors: dict[str, Tensor]) -> None:
    save_file(tensors, path, {"format": "pt"})  # a word that transformers asks for
    path.chmod(path.parent.stat().st_mode & 0o666)  # safetensors keeps its files to their owner


def _write_tokeniser(folder: Path, tokens: CaptionTokenizer) -> None:
    """tokenizer.json says everything; transformers' CLIP classes want vocab.json and merges.txt too."""
    tokens.save(folder)
    about, clips = tokens.description(), is_clips(tokens)
    pieces = about["model"]["vocab"]
    spelled = {number: piece for piece, number in pieces.items()}
    spelled |= {added["id"]: added["content"] for added in about["added_tokens"]}
    if "merges" in about["model"]:
        merges = (" ".join(merge) if isinstance(merge, list) else merge for merge in about["model"]["merges"])
        _write_json(folder / "vocab.json", pieces)
        (folder / "merges.txt").write_text("\n".join(["#version: 0.2", *merges]) + "\n", encoding="utf-8")
    end = spelled[tokens.end]
    settings = {
        "tokenizer_class": "CLIPTokenizer" if clips else "PreTrainedTokenizerFast",
        "model_max_length": tokens.context,
        "bos_token": spelled[tokens.start],
        "eos_token": end,
        "pad_token": spelled[tokens.pad] if tokens.pad else end,  # CLIP's way where a vocabulary has none
        "unk_token": about["model"].get("unk_token") or end,
        "split_special_tokens": True,  # one that is spelled out in a caption is plain text
    }
    _write_json(folder / "tokenizer_config.json", settings)


def _write_json(path: Path, table: Fields) -> None:
    path.write_text(json.dumps(table, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
