"""Models that another library's format cannot hold, settings nobody knows, and the words of the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from small_clip import small_config, small_open_clip, small_tokens, write_open_clip
from small_model import small_model, small_swin_model

import equipoise as eq
from equipoise.cli import main
from equipoise.cli.export_model import FORMATS
from equipoise.encoders import TextTransformer
from equipoise.interop import EXPORTS
from equipoise.models.folder import model_folder
from equipoise.spaces import Euclidean, ProductSphere
from equipoise.types import UserError
from equipoise.workflows import load_foreign


@pytest.fixture(scope="module")
def small():
    return small_tokens()


@pytest.fixture
def theirs(open_clip, small, tmp_path: Path) -> Path:
    config = small_config("vit", small)
    return write_open_clip(tmp_path / "theirs", small_open_clip(open_clip, config).state_dict(), config, small)


def bidirectional():
    model = small_model()
    model.text_encoder = TextTransformer(TextTransformer.Config(causal=False, width=16, layers=1, heads=2), 40, 8)
    return model


@pytest.mark.parametrize("format", ["open_clip", "transformers"])
@pytest.mark.parametrize(
    ("make", "reasons"),
    [
        (lambda: small_model(Euclidean(12)), ["its space is a Euclidean"]),
        (lambda: small_model(ProductSphere(4, 4)), ["its space is a ProductSphere"]),
        (
            lambda: small_model(ProductSphere(4, 4), readout="class_tokens"),
            [
                "its space is a ProductSphere",
                "its image tower has several class tokens",
                "its text tower is not causal",
            ],
        ),
        (lambda: small_model(readout="code_book"), ["its readout is a CodeBookReadout"]),
        (small_swin_model, ["its image tower is a Swin"]),
        (bidirectional, ["its text tower is not causal"]),
    ],
)
def test_what_a_format_cannot_hold_is_one_sentence(small, tmp_path: Path, format: str, make, reasons: list[str]):
    model = make()
    model.tokenizer = small
    with pytest.raises(UserError) as caught:
        EXPORTS[format](model, tmp_path)
    assert str(caught.value).startswith(f"{format} has no words for this model: ")
    for reason in reasons:
        assert reason in str(caught.value)
    assert not list(tmp_path.iterdir())


def test_what_transformers_cannot_hold_open_clip_may(open_clip, small, tmp_path: Path):
    for kind, more, reason in (("resnet", {}, "no ResNet"), ("vit", {"init_logit_bias": -1.0}, "no logit_bias")):
        config = small_config(kind, small, **more)
        folder = write_open_clip(tmp_path / kind, small_open_clip(open_clip, config).state_dict(), config, small)
        with pytest.raises(UserError, match=f"its CLIP has {reason}"):
            EXPORTS["transformers"](eq.load(folder), tmp_path)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"vision_cfg": {"widht": 24}}, "vision_cfg: the key 'widht' is unknown; did you mean \"width\"?"),
        ({"vision_cfg": {"attentional_pool": True}}, "attentional_pool is True, but only None or False can be read"),
        ({"vision_cfg": {"timm_model_name": "convnext_base"}}, "timm_model_name is 'convnext_base', but only None"),
        ({"vision_cfg": {"width": "24"}}, "vision_cfg: width is '24', but must be a whole number"),
        ({"vision_cfg": {"width": 0}}, "vision_cfg: width is 0, but must be larger than 0"),
        ({"vision_cfg": {"layers": 1_000_000}}, '"image.layers" must be a whole number, from 1 to 1000'),
        ({"text_cfg": {"layers": 1_000_000}}, '"text.layers" must be a whole number, from 1 to 1000'),
        ({"vision_cfg": {"width": 65_536, "head_width": 16}}, "not 65536×"),
        ({"vision_cfg": {"layers": [1, 2]}}, "layers is [1, 2], but a ResNet has four stages"),
        ({"vision_cfg": {"image_size": [32, 64]}}, "image_size is [32, 64], but only squares can be read"),
        ({"vision_cfg": {"act_kwargs": {"approximate": "some"}}}, "act_kwargs is {'approximate': 'some'}"),
        ({"text_cfg": {"hf_model_name": "roberta-base"}}, "hf_model_name is 'roberta-base', but only None or False"),
        ({"text_cfg": {"pool_type": "last"}}, "pool_type is 'last', but only 'argmax' or 'eos' can be read"),
        ({"text_cfg": {"vocab_size": 9}}, "the text tower knows 9 tokens, but the tokenizer has"),
        ({"custom_text": True}, "custom_text is True, but only None or False can be read"),
        ({"embed_dim": None}, "embed_dim must be a whole number from 1 on, not None"),
        ({"text_cfg": None}, "text_cfg must be a table of settings, not None"),
        ({"preprocess_cfg": {"interpolation": "bilinear"}}, "interpolation is 'bilinear', but only 'bicubic'"),
        ({"preprocess_cfg": {"resize_mode": "longest"}}, "resize_mode is 'longest', but only 'shortest'"),
        ({"preprocess_cfg": {"size": 64}}, "images are prepared at 64 px, but the image tower sees 32 px"),
        ({"preprocess_cfg": {"mean": [0.5]}}, "mean"),
    ],
)
def test_settings_that_cannot_be_honoured_are_one_sentence(theirs: Path, change, sentence: str):
    file = theirs / "open_clip_config.json"
    whole = json.loads(file.read_text())
    for name, value in change.items():
        table = whole if name == "preprocess_cfg" else whole["model_cfg"]
        table[name] = {**table[name], **value} if isinstance(value, dict) else value
    file.write_text(json.dumps(whole))
    with pytest.raises(UserError) as caught:
        eq.load(theirs)
    assert sentence in str(caught.value)
    assert str(theirs) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_parts_that_are_missing_are_one_sentence(theirs: Path, tmp_path: Path):
    with pytest.raises(UserError, match=r"no model in .*nowhere \(there is no such folder\)"):
        load_foreign(tmp_path / "nowhere")
    with pytest.raises(UserError, match="says what the model is"):
        eq.load(theirs, model="ViT-B-32")
    with pytest.raises(UserError, match=r"but open_clip_config\.json of another library: `equipoise import"):
        model_folder(theirs)
    (theirs / "tokenizer.json").unlink()
    with pytest.raises(UserError, match="name a tokenizer of its own"):
        eq.load(theirs)
    config = (theirs / "open_clip_config.json").read_text()
    (theirs / "open_clip_config.json").write_text("{")
    with pytest.raises(UserError, match=r"cannot read .*open_clip_config\.json"):
        eq.load(theirs)
    (theirs / "open_clip_config.json").write_text(config)
    (theirs / "open_clip_model.safetensors").unlink()
    with pytest.raises(UserError, match="holds no weights: none of open_clip_model"):
        eq.load(theirs)


def test_heads_are_left_out_and_said(theirs: Path, tmp_path: Path, capsys, monkeypatch):
    model = eq.load(theirs)
    model.heads["extra"] = torch.nn.Linear(2, 2)
    monkeypatch.setattr("equipoise.workflows.convert.load", lambda path: model)
    assert main(["export", str(theirs), "--to", "open_clip", "--out", str(tmp_path / "out")]) == 0
    assert "left out, as training's own: head extra" in capsys.readouterr().out
    assert eq.load(tmp_path / "out").image_encoder.width == 24


def test_the_command_line(theirs: Path, tmp_path: Path, capsys):
    ours, back, preprocess = tmp_path / "ours", tmp_path / "back", tmp_path / "preprocess.json"
    preprocess.write_text(json.dumps({"mean": [0.1, 0.2, 0.3], "std": [1, 1, 1]}))
    assert main(["import", str(theirs), "--out", str(ours), "--preprocess", str(preprocess)]) == 0
    said = capsys.readouterr().out
    assert "images 32 px, mean (0.1, 0.2, 0.3)" in said
    assert "8 px patches, gelu" in said
    assert sorted(path.name for path in ours.iterdir()) == [
        "README.md", "config.toml", "digests.json", "metrics.json", "model.safetensors", "preprocess.json",
        "tokenizer.json",
    ]  # fmt: skip
    for format in FORMATS:
        assert main(["export", str(ours), "--to", format, "--out", str(back / format)]) == 0
        assert f"holds the model for {format}" in capsys.readouterr().out
    assert eq.load(back / "transformers").preprocess.mean == (0.1, 0.2, 0.3)
    assert main(["import", str(theirs), "--out", str(ours)]) == 2
    assert "is there already; choose another folder" in capsys.readouterr().err
    assert main(["export", str(tmp_path / "nowhere"), "--to", "onnx", "--out", str(tmp_path / "x")]) == 2
    assert "there is no such folder" in capsys.readouterr().err
    assert not (tmp_path / "x").exists()
    assert tuple(EXPORTS) == FORMATS


@pytest.mark.parametrize("kind", [torch.bool, torch.uint8, torch.int64, torch.complex64])
def test_weights_that_are_no_real_numbers(open_clip, small, tmp_path: Path, kind: torch.dtype):
    config = small_config("vit", small)
    state = small_open_clip(open_clip, config).state_dict()
    state["ln_final.weight"] = state["ln_final.weight"].to(kind)
    folder = write_open_clip(tmp_path / "theirs", state, config, small)
    with pytest.raises(UserError, match=r"ln_final\.weight \(" + str(kind).removeprefix("torch.")):
        eq.load(folder)
