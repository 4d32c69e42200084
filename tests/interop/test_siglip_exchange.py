"""SigLIP in and out: transformers' SiglipModel and open_clip's, the same vectors and the same bits."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file
from small_clip import CAPTIONS, CONTEXT, assert_same_tensors, disturbed, small_tokens
from small_siglip import assert_same_siglip, write_sentencepiece, write_siglip

import equipoise as eq
from equipoise.encoders import SiglipImage, SiglipText
from equipoise.interop import EXPORTS, ImportRequest
from equipoise.interop.open_clip.siglip import _image
from equipoise.interop.open_clip.siglip_names import SIGLIP_NAMES, TIMM_NAMES, named_siglip
from equipoise.types import UserError
from equipoise.workflows import export_model, import_model


def their_ids(transformers, folder: Path, texts: list[str] = CAPTIONS) -> torch.Tensor:
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    given = tokenizer(texts, padding="max_length", max_length=CONTEXT, truncation=True, return_tensors="pt")
    return given["input_ids"]


@pytest.mark.parametrize("pad", ["</s>", "<pad>"])  # SigLIP's way, and SigLIP 2's
def test_a_folder_of_transformers_in_and_out_again(transformers, tmp_path: Path, pad: str):
    peer = write_siglip(tmp_path / "theirs", transformers, pad)
    texts = [*CAPTIONS, "a red fish on a table " * 4]  # the last one is cut
    ids = their_ids(transformers, tmp_path / "theirs", texts)
    import_model(str(tmp_path / "theirs"), tmp_path / "ours", ImportRequest())
    ours = eq.load(tmp_path / "ours")
    with pytest.warns(UserWarning, match="cut off"):
        assert_same_siglip(ours, peer, ids, texts)
    assert ours.text_encoder.config.pad == (1 if pad == "</s>" else 0)
    assert (ours.preprocess.resize, ours.preprocess.mean) == ("squash", (0.5, 0.5, 0.5))

    export_model(str(tmp_path / "ours"), "transformers", tmp_path / "back")
    assert_same_tensors(load_file(tmp_path / "back" / "model.safetensors"), dict(peer.state_dict()))
    made = transformers.SiglipModel.from_pretrained(tmp_path / "back").eval()
    assert_same_siglip(ours, made, their_ids(transformers, tmp_path / "back"))
    assert_same_tensors(eq.load(tmp_path / "back").state_dict(), ours.state_dict())


def test_logits_have_the_bias_and_pictures_are_squashed(transformers, tmp_path: Path):
    peer = write_siglip(tmp_path / "theirs", transformers)
    ours = eq.load(tmp_path / "theirs")
    picture = Image.fromarray(np.random.default_rng(0).integers(0, 256, (50, 70, 3), dtype=np.uint8))
    pixels = torch.from_numpy(np.array(picture.resize((32, 32), Image.Resampling.BICUBIC))).permute(2, 0, 1) / 127.5 - 1
    with torch.no_grad():
        both = peer(pixel_values=pixels[None], input_ids=their_ids(transformers, tmp_path / "theirs"))
    found = ours.encode_image([picture]) @ ours.encode_text(CAPTIONS).T * ours.logit_scale.exp() + ours.logit_bias
    torch.testing.assert_close(found, both.logits_per_image, atol=1e-4, rtol=0)


@pytest.mark.parametrize("settings", [{"tokenizer_class": "SiglipTokenizer"}, {}])
def test_case_and_punctuation(transformers, tmp_path: Path, settings: dict):
    """SiglipTokenizer drops both before it cuts, and its tokenizer.json does not say so."""
    write_siglip(tmp_path / "theirs", transformers, **settings)
    tokens = eq.load(tmp_path / "theirs").tokens
    same = torch.equal(tokens(["Two  cats!"])[0], tokens(["two cats"])[0])
    assert same == bool(settings)


def test_it_goes_on_to_onnx(transformers, tmp_path: Path):
    pytest.importorskip("onnxruntime")
    write_siglip(tmp_path / "theirs", transformers)
    export_model(str(tmp_path / "theirs"), "onnx", tmp_path / "onnx")  # which compares the vectors as it writes


def test_padding_counts_whatever_the_width(transformers, tmp_path: Path):
    """A batch padded less, alone or with a longer one, has the same points."""
    write_siglip(tmp_path / "theirs", transformers)
    ours = eq.load(tmp_path / "theirs")
    alone, together = ours.encode_text(CAPTIONS[-1:]), ours.encode_text(CAPTIONS)[-1:]
    torch.testing.assert_close(alone, together, atol=1e-6, rtol=0)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"model_type": "siglip2"}, "type siglip2, but only clip or siglip can be read"),
        ({"vision_config": {"vision_use_head": False}}, "vision_use_head is False, but only True"),
        ({"text_config": {"projection_size": 20}}, "texts become 20 numbers but images 24"),
        ({"text_config": {"layer_norm_eps": 1e-5}}, "layer_norm_eps is 1e-05, but only 1e-06"),
        ({"text_config": {"vocab_size": 9}}, "the text tower knows 9 tokens, but the tokenizer has"),
    ],
)
def test_settings_that_cannot_be_honoured(transformers, tmp_path: Path, change: dict, sentence: str):
    write_siglip(tmp_path, transformers)
    whole = json.loads((tmp_path / "config.json").read_text())
    for name, value in change.items():
        whole[name] = {**whole[name], **value} if isinstance(value, dict) else value
    (tmp_path / "config.json").write_text(json.dumps(whole))
    with pytest.raises(UserError, match=str(tmp_path)) as caught:
        eq.load(tmp_path)
    assert sentence in str(caught.value)


def test_tokenizers_that_are_not_siglips(transformers, tmp_path: Path):
    write_siglip(tmp_path, transformers)
    (tmp_path / "tokenizer_config.json").write_text("{}")
    with pytest.raises(UserError, match="no pad_token is named"):
        eq.load(tmp_path)
    (tmp_path / "tokenizer.json").unlink()
    with pytest.raises(UserError, match=r"SigLIP's tokenizer is missing"):
        eq.load(tmp_path)
    small_tokens().save(tmp_path)
    with pytest.raises(UserError, match="one token behind a text and none before it"):
        eq.load(tmp_path)


def test_other_models_are_not_taken_for_it(transformers, tmp_path: Path):
    write_siglip(tmp_path / "theirs", transformers)
    with pytest.raises(UserError, match="has not the sizes of one of timm's"):
        EXPORTS["open_clip"](eq.load(tmp_path / "theirs"), tmp_path)
    model = eq.load(tmp_path / "theirs")
    model.logit_bias = None
    with pytest.raises(UserError, match="has no logit bias"):
        EXPORTS["transformers"](model, tmp_path)


@pytest.mark.slow
def test_names_mean_what_open_clip_means(open_clip, timm):
    theirs = {name for name in open_clip.list_models() if "SigLIP" in name}
    assert theirs - {"ViT-SO400M-14-SigLIP-384", "ViT-SO400M-16-SigLIP-i18n-256"} == set(SIGLIP_NAMES)
    for name in SIGLIP_NAMES:
        assert named_siglip(name) == open_clip.get_model_config(name), name
    for name in TIMM_NAMES:
        config, size = _image(name)
        with torch.device("meta"):
            tower, peer = SiglipImage(config, size), timm.create_model(name, num_classes=0)
        assert sum(p.numel() for p in tower.parameters()) == sum(p.numel() for p in peer.parameters()), name
        assert (peer.blocks[0].attn.num_heads, peer.norm.eps) == (config.heads, 1e-6)
        assert _is_tanh(peer.blocks[0].mlp.act) == _is_tanh(peer.attn_pool.mlp.act) == (config.activation != "gelu")


def _is_tanh(act: torch.nn.Module) -> bool:
    return "Tanh" in type(act).__name__ or getattr(act, "approximate", "none") == "tanh"


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["SigLIP", "SigLIP2"])
def test_open_clips_own_image_tower_in_and_out_again(open_clip, transformers, tmp_path: Path, kind: str):
    """The whole image tower, for timm's name decides its sizes; a small text tower."""
    theirs = tmp_path / "theirs"
    vocabulary = write_sentencepiece(theirs, "</s>" if kind == "SigLIP" else "<pad>")
    config = named_siglip(f"ViT-B-16-{kind}")
    config["text_cfg"] |= {"context_length": CONTEXT, "vocab_size": vocabulary, "width": 32, "heads": 4, "layers": 2}
    given = {key: value for key, value in config.items() if key != "custom_text"}
    torch.manual_seed(0)
    peer = disturbed(open_clip.model.CustomTextCLIP(**given)).eval()
    (theirs / "open_clip_config.json").write_text(json.dumps({"model_cfg": config}))
    state = {name: tensor.contiguous() for name, tensor in peer.state_dict().items()}
    torch.save(state, theirs / "open_clip_pytorch_model.bin")
    ours = eq.load(theirs)
    assert isinstance(ours.text_encoder, SiglipText)
    assert_same_siglip(ours, peer, ours.tokens(CAPTIONS, pad_to_context=True)[0])
    export_model(str(theirs), "open_clip", tmp_path / "back")
    assert_same_tensors(load_file(tmp_path / "back" / "open_clip_model.safetensors"), dict(peer.state_dict()))
    made = open_clip.create_model(f"local-dir:{tmp_path / 'back'}").eval()
    ids = open_clip.get_tokenizer(f"local-dir:{tmp_path / 'back'}")(CAPTIONS)
    assert_same_siglip(ours, made, ids)
