"""CLIP's own sizes, random weights, in and out: minutes, so only where slow tests are asked for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from small_clip import assert_same_points, assert_same_tensors, disturbed

import equipoise as eq
from equipoise.interop import ImportRequest
from equipoise.interop.infer_config import NAMED, likely_name, named_config
from equipoise.workflows import export_model, import_model


@pytest.mark.parametrize("quick", ["", "-quickgelu"])
@pytest.mark.parametrize("name", list(NAMED))
def test_names_mean_what_open_clip_means(open_clip, name: str, quick: str):
    assert open_clip.get_model_config(f"{name}{quick}") == {
        key: value for key, value in named_config(f"{name}{quick}").items() if value is not False
    }
    assert likely_name(named_config(name)) == name


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
