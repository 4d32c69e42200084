"""Export of a plain CLIP as a folder of open_clip or of transformers. Nothing is uploaded.

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
from equipoise.encoders import SiglipImage, ViT
from equipoise.interop.key_mapping import KeyMap, to_theirs
from equipoise.interop.load import IMAGES, OPEN_CLIP, OPEN_CLIP_WEIGHTS, TRANSFORMERS, TRANSFORMERS_WEIGHTS
from equipoise.interop.open_clip import config as open_clip_config
from equipoise.interop.open_clip import keys as open_clip_keys
from equipoise.interop.open_clip import siglip as open_clip_siglip
from equipoise.interop.open_clip import siglip_keys as open_clip_siglip_keys
from equipoise.interop.plain_clip import PlainCLIP
from equipoise.interop.plain_siglip import PlainSigLIP
from equipoise.interop.strict_fields import Fields
from equipoise.interop.tokenizer import is_clip_tokenizer
from equipoise.interop.transformers import config as transformers_config
from equipoise.interop.transformers import keys as transformers_keys
from equipoise.interop.transformers import siglip as transformers_siglip
from equipoise.interop.transformers import siglip_keys as transformers_siglip_keys
from equipoise.models.model import Model

POOL_BIAS = "visual.attnpool.c_proj.bias"


def write_open_clip(model: Model, folder: Path) -> None:
    if isinstance(model.image_encoder, SiglipImage):
        config = open_clip_siglip.write_config(PlainSigLIP.of(model, "open_clip"), folder.name)
        _write_json(folder / OPEN_CLIP, config)
        _write_weights(folder / OPEN_CLIP_WEIGHTS[0], _tensors(model, open_clip_siglip_keys.KEY_MAP))
        return _write_tokenizer(folder, model.tokenizer)
    plain, tokenizer = PlainCLIP.of(model, "open_clip"), model.tokenizer
    hf_name = "" if is_clip_tokenizer(tokenizer) else folder.name
    config = open_clip_config.write_config(plain, tokenizer.end, hf_name)
    key_map = open_clip_keys.key_map_for(plain.image)
    needed = {} if isinstance(plain.image, ViT.Config) else {POOL_BIAS: torch.zeros(plain.dim)}  # ours may have none
    _write_json(folder / OPEN_CLIP, config)
    _write_weights(folder / OPEN_CLIP_WEIGHTS[0], {**needed, **_tensors(model, key_map)})
    _write_tokenizer(folder, tokenizer)


def write_transformers(model: Model, folder: Path) -> None:
    tokenizer, is_siglip = model.tokenizer, isinstance(model.image_encoder, SiglipImage)
    if is_siglip:
        siglip = PlainSigLIP.of(model, "transformers")
        config, images = transformers_siglip.write_config(siglip, tokenizer.end, tokenizer.pad)
    else:
        plain = PlainCLIP.of(model, "transformers")
        assert tokenizer.start is not None  # as a plain CLIP's is
        config, images = transformers_config.write_config(plain, tokenizer.start, tokenizer.end, tokenizer.pad)
    key_map = transformers_siglip_keys.KEY_MAP if is_siglip else transformers_keys.KEY_MAP
    _write_json(folder / TRANSFORMERS, config)
    _write_json(folder / IMAGES, images)
    _write_weights(folder / TRANSFORMERS_WEIGHTS[0], _tensors(model, key_map))
    _write_tokenizer(folder, tokenizer)


def training_only_parts(model: Model) -> list[str]:
    """Parts of the model that an export leaves out, for only training needs them."""
    parts = [f"head {name}" for name in model.heads]
    return [*parts, *(["the map of regions"] if model.regions is not None else [])]


def _tensors(model: Model, key_map: KeyMap) -> dict[str, Tensor]:
    return to_theirs({key: tensor.detach().cpu() for key, tensor in model.state_dict().items()}, key_map)


def _write_weights(path: Path, tensors: dict[str, Tensor]) -> None:
    save_file(tensors, path, {"format": "pt"})  # transformers requires it
    path.chmod(path.parent.stat().st_mode & 0o666)  # safetensors makes files that only their owner can read


def _write_tokenizer(folder: Path, tokenizer: CaptionTokenizer) -> None:
    """Write tokenizer.json, which is complete, and vocab.json and merges.txt, which transformers' CLIP classes need."""
    tokenizer.save(folder)
    description, is_clip = tokenizer.description(), is_clip_tokenizer(tokenizer)
    pieces = description["model"]["vocab"]
    named = isinstance(pieces, dict)  # SentencePiece's are a list of pieces with their scores
    piece_of = {number: piece for piece, number in pieces.items()} if named else dict(enumerate(p for p, _ in pieces))
    piece_of |= {added["id"]: added["content"] for added in description["added_tokens"]}
    if "merges" in description["model"]:
        merges = (" ".join(merge) if isinstance(merge, list) else merge for merge in description["model"]["merges"])
        _write_json(folder / "vocab.json", pieces)
        (folder / "merges.txt").write_text("\n".join(["#version: 0.2", *merges]) + "\n", encoding="utf-8")
    end = piece_of[tokenizer.end]
    settings = {
        "tokenizer_class": "CLIPTokenizer" if is_clip else "PreTrainedTokenizerFast",
        "model_max_length": tokenizer.context,
        **({} if tokenizer.start is None else {"bos_token": piece_of[tokenizer.start]}),
        "eos_token": end,
        "pad_token": _pad(tokenizer, piece_of),
        "unk_token": description["model"].get("unk_token") or end,
        "split_special_tokens": True,  # one that is spelled out in a caption is plain text
    }
    _write_json(folder / "tokenizer_config.json", settings)


def _pad(tokenizer: CaptionTokenizer, piece_of: dict[int, str]) -> str:
    if tokenizer.pad or tokenizer.fill is not None:
        return piece_of[tokenizer.pad]
    return piece_of[tokenizer.end]  # CLIP's way where a vocabulary has none


def _write_json(path: Path, table: Fields) -> None:
    path.write_text(json.dumps(table, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
