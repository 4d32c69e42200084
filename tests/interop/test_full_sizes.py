"""CLIP's own sizes, random weights, in and out: minutes, so only where slow tests are asked for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from small_clip import (
    assert_same_points,
    assert_same_tensors,
    disturbed,
    small_open_clip,
    small_tokens,
    write_open_clip,
)

import equipoise as eq
from equipoise.interop import ImportRequest
from equipoise.interop.open_clip.config import read_config
from equipoise.interop.open_clip.names import NAMED, QUICK, likely_name, named_config
from equipoise.types import UserError
from equipoise.workflows import export_model, import_model


def test_names_mean_what_open_clip_means(open_clip):
    """Each name is compared with open_clip's file, and no file that can be read is without a name."""
    known = set(open_clip.list_models())
    for name in (f"{base}{quick}" for base in NAMED for quick in ("", QUICK)):
        config = named_config(name)
        if name in known:
            theirs = open_clip.get_model_config(name)
            assert theirs == {key: value for key, value in config.items() if value is not False}, name
        assert likely_name(config) == name.removesuffix(QUICK)
    assert known.issuperset(NAMED)
    assert not [name for name in known if name.removesuffix(QUICK) not in NAMED and _is_plain(open_clip, name)]


def _is_plain(open_clip, name: str) -> bool:
    try:
        read_config(open_clip.get_model_config(name), name)
    except UserError:
        return False
    return True


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ViT-H-14", "ViT-g-14", "ViT-bigG-14", "ViT-e-14", "RN101", "RN50x4", "RN50x16"])
def test_a_small_model_with_a_names_own_ratios(open_clip, tmp_path: Path, name: str):
    """Heads of 80, 88, 104 and 112 features, MLPs of odd ratios, other stages: as in the name's config, but shallow."""
    config, tokens = _shrunk(named_config(name)), small_tokens()
    config["text_cfg"] |= {"context_length": tokens.context, "vocab_size": tokens.size, "hf_tokenizer_name": "own"}
    peer = small_open_clip(open_clip, config)
    theirs = write_open_clip(tmp_path / "theirs", peer.state_dict(), config, tokens)
    import_model(str(theirs), tmp_path / "ours", ImportRequest())
    assert_same_points(eq.load(tmp_path / "ours"), peer)
    export_model(str(tmp_path / "ours"), "open_clip", tmp_path / "back")
    assert_same_tensors(load_file(tmp_path / "back" / "open_clip_model.safetensors"), dict(peer.state_dict()))
    made = open_clip.create_model(f"local-dir:{tmp_path / 'back'}").eval()
    assert_same_points(eq.load(tmp_path / "ours"), made)


def _shrunk(config: dict) -> dict:
    """Two heads and two blocks in each tower; a ResNet an eighth as wide, with at most two blocks in a stage."""
    vision, text = dict(config["vision_cfg"]), {**config["text_cfg"], "width": 128, "heads": 2, "layers": 2}
    if isinstance(vision["layers"], list):
        few = [min(2, count) for count in vision["layers"]]
        vision |= {"layers": few, "width": vision["width"] // 8, "image_size": 64, "head_width": 32}
    else:
        vision |= {"layers": 2, "width": 2 * vision["head_width"], "image_size": 3 * vision["patch_size"]}
    return {**config, "embed_dim": 24, "vision_cfg": vision, "text_cfg": text}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ViT-B-32-quickgelu", "ViT-B-16", "RN50", "RN50-quickgelu"])
def test_open_clips_own_sizes(open_clip, tmp_path: Path, name: str):
    torch.manual_seed(0)
    peer = disturbed(open_clip.create_model(name, pretrained=None)).eval()
    torch.save({"epoch": 1, "state_dict": {f"module.{n}": t for n, t in peer.state_dict().items()}}, tmp_path / "x.pt")
    import_model(str(tmp_path / "x.pt"), tmp_path / "ours", ImportRequest(model=name))
    assert_same_points(eq.load(tmp_path / "ours"), peer)
    export_model(str(tmp_path / "ours"), "open_clip", tmp_path / "back")
    assert_same_tensors(load_file(tmp_path / "back" / "open_clip_model.safetensors"), dict(peer.state_dict()))
    written = json.loads((tmp_path / "back" / "open_clip_config.json").read_text())
    assert "hf_tokenizer_name" not in written["model_cfg"]["text_cfg"]  # it is CLIP's own
    export_model(str(tmp_path / "back"), "onnx", tmp_path / "onnx")  # which is checked as it is written


@pytest.mark.slow
def test_transformers_own_size(transformers, tmp_path: Path):
    torch.manual_seed(0)
    peer = disturbed(transformers.CLIPModel(transformers.CLIPConfig())).eval()
    peer.save_pretrained(tmp_path / "theirs")
    transformers.CLIPImageProcessor().save_pretrained(tmp_path / "theirs")
    from equipoise.interop.tokenizer import _clip_vocabulary_file

    asked = ImportRequest(tokenizer=str(_clip_vocabulary_file()))
    import_model(str(tmp_path / "theirs"), tmp_path / "ours", asked)
    assert_same_points(eq.load(tmp_path / "ours"), peer)
    export_model(str(tmp_path / "ours"), "transformers", tmp_path / "back")
    assert_same_tensors(load_file(tmp_path / "back" / "model.safetensors"), dict(peer.state_dict()))
    whole = transformers.CLIPProcessor.from_pretrained(tmp_path / "back")
    ids = whole(text=["a diagram"], return_tensors="pt")["input_ids"]
    assert ids.tolist() == [[49406, 320, 22697, 49407]]
