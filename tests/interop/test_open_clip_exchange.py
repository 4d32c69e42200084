"""open_clip's models in and out: the same vectors, the same bits, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file
from small_clip import (
    CAPTIONS,
    assert_same_points,
    assert_same_tensors,
    random_images,
    small_config,
    small_open_clip,
    small_tokens,
    write_open_clip,
)

import equipoise as eq
from equipoise.config import dump, load_run
from equipoise.interop import EXPORTS, ImportRequest
from equipoise.models.folder import save_model
from equipoise.workflows import build_model, export_model, import_model

KINDS = ("vit", "resnet")


@pytest.fixture(scope="module")
def small():
    return small_tokens()


@pytest.fixture(scope="module")
def pictures():
    make = np.random.default_rng(0)
    return [Image.fromarray(make.integers(0, 256, (50, 70, 3), dtype=np.uint8)) for _ in range(2)]


@pytest.mark.parametrize("quick", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_a_folder_in_and_out_again(open_clip, small, tmp_path: Path, kind: str, quick: bool, pictures):
    config = small_config(kind, small, quick_gelu=quick)
    peer = small_open_clip(open_clip, config)
    theirs = write_open_clip(tmp_path / "theirs", peer.state_dict(), config, small)
    loaded = eq.load(theirs)
    assert_same_points(loaded, peer)
    assert loaded.preprocess.mean == (0.5, 0.4, 0.3)

    import_model(str(theirs), tmp_path / "ours", ImportRequest())
    ours = eq.load(tmp_path / "ours")
    assert_same_tensors(ours.state_dict(), loaded.state_dict())
    assert ours.text_encoder.config.activation == ("quick_gelu" if quick else "gelu")
    assert ours.preprocess == loaded.preprocess

    export_model(str(tmp_path / "ours"), "open_clip", tmp_path / "back")
    assert_same_tensors(load_file(tmp_path / "back" / "open_clip_model.safetensors"), dict(peer.state_dict()))

    made, _, transform = open_clip.create_model_and_transforms(f"local-dir:{tmp_path / 'back'}")  # as its users do
    ids = open_clip.get_tokenizer(f"local-dir:{tmp_path / 'back'}")(CAPTIONS)
    with torch.no_grad():
        images = torch.stack([transform(picture) for picture in pictures])
        torch.testing.assert_close(
            ours.encode_image(pictures), made.eval().encode_image(images, True), atol=1e-5, rtol=0
        )
        torch.testing.assert_close(ours.encode_text(CAPTIONS), made.encode_text(ids, True), atol=1e-5, rtol=0)


@pytest.mark.parametrize("kind", KINDS)
def test_the_activation_makes_a_difference(open_clip, small, tmp_path: Path, kind: str):
    """So the test above would notice a wrong one."""
    config = small_config(kind, small)
    peer = small_open_clip(open_clip, config)
    wrong = eq.load(write_open_clip(tmp_path / "theirs", peer.state_dict(), {**config, "quick_gelu": True}, small))
    with pytest.raises(AssertionError):
        assert_same_points(wrong, peer)


def test_a_tanh_gelu_a_logit_bias_and_an_end_token_that_is_not_the_highest(open_clip, tmp_path: Path):
    tokens = small_tokens().with_mask()  # which comes behind the end token
    assert tokens.end == tokens.size - 2
    config = small_config("vit", tokens, init_logit_bias=-7.5)
    config["vision_cfg"] = {**config["vision_cfg"], "act_kwargs": {"approximate": "tanh"}, "patch_dropout": 0.25}
    config["text_cfg"] |= {"pool_type": "eos", "eos_id": tokens.end}
    peer = small_open_clip(open_clip, config)
    ours = eq.load(write_open_clip(tmp_path / "theirs", peer.state_dict(), config, tokens))
    assert_same_points(ours, peer)
    assert ours.image_encoder.config.activation == "gelu_tanh"
    assert ours.logit_bias.item() == peer.logit_bias.item()
    export_model(str(tmp_path / "theirs"), "open_clip", tmp_path / "back")
    made = open_clip.create_model(f"local-dir:{tmp_path / 'back'}").eval()
    assert_same_tensors(dict(made.state_dict()), dict(peer.state_dict()))
    assert_same_points(ours, made)
    written = json.loads((tmp_path / "back" / "open_clip_config.json").read_text())
    assert written["model_cfg"]["vision_cfg"]["patch_dropout"] == 0.25


def test_a_model_of_ours_goes_out_and_comes_back(tmp_path: Path, open_clip, scenes, tokens, tiny_settings):
    loaded = load_run("demo", (*tiny_settings, "image.activation=gelu", "text.activation=gelu"))
    save_model(build_model(loaded.run, tokens), tmp_path / "ours", dump(loaded.table), {})
    export_model(str(tmp_path / "ours"), "open_clip", tmp_path / "theirs")
    before, after = eq.load(tmp_path / "ours"), eq.load(tmp_path / "theirs")
    assert_same_tensors(after.state_dict(), before.state_dict())
    images, texts = scenes.images(range(4), 48), ["a red star", "two fish"]
    assert torch.equal(before.encode_image(images), after.encode_image(images))
    assert torch.equal(before.encode_text(texts), after.encode_text(texts))
    made = open_clip.create_model(f"local-dir:{tmp_path / 'theirs'}").eval()
    ids = open_clip.get_tokenizer(f"local-dir:{tmp_path / 'theirs'}")(texts)
    with torch.no_grad():
        torch.testing.assert_close(made.encode_text(ids, True), before.encode_text(texts), atol=1e-5, rtol=0)
        prepared = random_images(before)
        torch.testing.assert_close(made.encode_image(prepared, True), before.image_points(prepared), atol=1e-5, rtol=0)


def test_a_resnet_of_ours_has_no_bias_and_gets_one_of_zeros(open_clip, small, tmp_path: Path):
    config = small_config("resnet", small)
    peer = small_open_clip(open_clip, config)
    torch.nn.init.zeros_(peer.visual.attnpool.c_proj.bias)
    ours = eq.load(write_open_clip(tmp_path / "theirs", peer.state_dict(), config, small))
    ours.image_readout.bias = None
    (tmp_path / "back").mkdir()
    EXPORTS["open_clip"](ours, tmp_path / "back")
    assert_same_tensors(load_file(tmp_path / "back" / "open_clip_model.safetensors"), dict(peer.state_dict()))
