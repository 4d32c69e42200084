"""transformers' CLIPModel in and out: the same vectors, the same bits, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file
from small_clip import CAPTIONS, assert_same_points, assert_same_tensors, small_tokens, small_transformers
from small_clip import write_transformers as write

import equipoise as eq
from equipoise.interop import ImportRequest
from equipoise.types import UserError
from equipoise.workflows import export_model, import_model


@pytest.fixture(scope="module")
def small():
    return small_tokens()


@pytest.fixture
def theirs(transformers, small, tmp_path: Path) -> Path:
    return write(tmp_path / "theirs", small_transformers(transformers, small), small, transformers)


@pytest.mark.parametrize("act", ["quick_gelu", "gelu", "gelu_pytorch_tanh", "relu"])
def test_a_folder_in_and_out_again(transformers, small, tmp_path: Path, act: str):
    peer = small_transformers(transformers, small, act)
    write(tmp_path / "theirs", peer, small, transformers)
    import_model(str(tmp_path / "theirs"), tmp_path / "ours", ImportRequest())
    ours = eq.load(tmp_path / "ours")
    assert_same_points(ours, peer)
    export_model(str(tmp_path / "ours"), "transformers", tmp_path / "back")
    assert_same_tensors(load_file(tmp_path / "back" / "model.safetensors"), dict(peer.state_dict()))

    made = transformers.CLIPModel.from_pretrained(tmp_path / "back").eval()  # as its users do
    read = transformers.AutoTokenizer.from_pretrained(tmp_path / "back")
    prepare = transformers.CLIPImageProcessor.from_pretrained(tmp_path / "back")
    assert made.config.to_dict() == {**peer.config.to_dict(), **_unread(made)}
    picture = Image.fromarray(np.random.default_rng(0).integers(0, 256, (40, 56, 3), dtype=np.uint8))
    with torch.no_grad():
        words = read(CAPTIONS, padding=True, truncation=True, return_tensors="pt")
        both = made(pixel_values=prepare(picture, return_tensors="pt")["pixel_values"], input_ids=words["input_ids"])
    torch.testing.assert_close(ours.encode_text(CAPTIONS), both.text_embeds, atol=1e-5, rtol=0)
    torch.testing.assert_close(ours.encode_image(picture), both.image_embeds, atol=5e-3, rtol=0)  # resized otherwise


def _unread(made) -> dict[str, object]:
    """What decides no vector: where it was read from, and what the towers repeat of the whole."""
    own = made.config.to_dict()
    return {
        name: own[name] for name in ("_name_or_path", "text_config", "vision_config", "architectures") if name in own
    }


def test_a_model_trained_here_goes_out_and_comes_back(transformers, finished_run: Path, tmp_path: Path, scenes):
    export_model(str(finished_run), "transformers", tmp_path / "theirs")
    before, after = eq.load(finished_run), eq.load(tmp_path / "theirs")
    assert_same_tensors(after.state_dict(), before.state_dict())
    images, texts = scenes.images(range(4), 48), ["a red star", "a “curly” quote", "<|endoftext|> two fish"]
    assert torch.equal(before.encode_image(images), after.encode_image(images))
    assert torch.equal(before.encode_text(texts), after.encode_text(texts))
    made = transformers.CLIPModel.from_pretrained(tmp_path / "theirs").eval()
    ids = transformers.AutoTokenizer.from_pretrained(tmp_path / "theirs")(texts, padding=True, return_tensors="pt")
    with torch.no_grad():
        points = torch.nn.functional.normalize(made.get_text_features(**_named(ids)).pooler_output, dim=-1)
    torch.testing.assert_close(points, before.encode_text(texts), atol=1e-5, rtol=0)


def _named(ids) -> dict[str, torch.Tensor]:
    return {name: ids[name] for name in ("input_ids", "attention_mask")}


def test_old_files_are_read_as_transformers_reads_them(transformers, small, theirs: Path):
    """A `text_config_dict` beside `text_config`, an end token of 2, settings of any model, buffers of positions."""
    config = json.loads((theirs / "config.json").read_text())
    text = {**config["text_config"], "eos_token_id": 2, "num_beams": 1, "top_p": 1.0, "dropout": 0.0}
    config |= {"text_config_dict": text, "vision_config_dict": None, "text_config": {"hidden_size": 7}}
    (theirs / "config.json").write_text(json.dumps(config))
    state = load_file(theirs / "model.safetensors")
    (theirs / "model.safetensors").unlink()
    positions = {"text_model.embeddings.position_ids": torch.arange(16)[None]}
    torch.save({**state, **positions}, theirs / "pytorch_model.bin")
    peer = transformers.CLIPModel.from_pretrained(theirs, use_safetensors=False).eval()
    assert_same_points(eq.load(theirs), peer)


def test_images_may_be_described_in_the_processors_own_file(theirs: Path):
    images = json.loads((theirs / "preprocessor_config.json").read_text())
    (theirs / "preprocessor_config.json").unlink()
    with pytest.raises(UserError, match=r"does not say how images are prepared: preprocessor_config\.json is missing"):
        eq.load(theirs)
    (theirs / "processor_config.json").write_text(json.dumps({"image_processor": images | {"image_std": [0.5] * 3}}))
    assert eq.load(theirs).preprocess.std == (0.5, 0.5, 0.5)


@pytest.mark.parametrize(
    ("file", "change", "sentence"),
    [
        ("config.json", {"model_type": "blip"}, "this is a model of type blip, but only clip or siglip can be read"),
        ("config.json", {"projectoin_dim": 12}, "the key 'projectoin_dim' is unknown; did you mean \"projection_dim\""),
        ("config.json", {"projection_dim": "12"}, "projection_dim is '12', but must be a whole number"),
        ("config.json", {"text_config": {"hidden_act": "silu"}}, "hidden_act is 'silu', but only quick_gelu"),
        ("config.json", {"text_config": {"layer_norm_eps": 1e-6}}, "layer_norm_eps is 1e-06, but only 1e-05"),
        ("config.json", {"text_config": {"eos_token_id": 5}}, "texts are read at token 5, but the tokenizer ends them"),
        ("config.json", {"text_config": {"vocab_size": 999}}, "knows 999 tokens, but the tokenizer has"),
        ("config.json", {"vision_config": {"image_size": 64}}, "size is {'shortest_edge': 32} and crop_size"),
        ("preprocessor_config.json", {"resample": 2}, "resample is 2, but only 3 can be read"),
        ("preprocessor_config.json", {"do_center_crop": False}, "do_center_crop is False, but only True"),
        (
            "preprocessor_config.json",
            {"crop_size": {"height": [1], "width": [1]}},
            "only a shorter side and a square crop",
        ),
        ("preprocessor_config.json", {"image_mean": 3}, "image_mean is 3, but must be a list"),
        ("preprocessor_config.json", {"size": {"height": 32, "width": 32}}, "only a shorter side and a square crop"),
    ],
)
def test_settings_that_cannot_be_honoured_are_one_sentence(theirs: Path, file: str, change, sentence: str):
    config = json.loads((theirs / file).read_text())
    inner = {
        name: {**config[name], **value} for name, value in change.items() if isinstance(value, dict) and name in config
    }
    whole = {**config, **change, **({} if "size" in change else inner)}
    (theirs / file).write_text(json.dumps(whole))
    with pytest.raises(UserError) as caught:
        eq.load(theirs)
    assert sentence in str(caught.value)
    assert str(theirs) in str(caught.value)
    assert "\n" not in str(caught.value)
