"""ONNX programs beside the models they were made of, run by onnxruntime."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import torch
from small_clip import CAPTIONS, CONTEXT, small_config, small_open_clip, small_tokens, write_open_clip
from small_model import small_model, small_resnet_model, small_swin_model
from tokenizers import Tokenizer
from torch import Tensor

import equipoise as eq
from equipoise.encoders import TextTransformer
from equipoise.interop import EXPORTS
from equipoise.interop import onnx as export
from equipoise.models.model import Model
from equipoise.spaces import Euclidean, ProductSphere, TokenSets
from equipoise.types import UserError
from equipoise.workflows import export_model

onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: ONNX exports are NOT tested")

MODELS = {
    "vit": small_model,
    "resnet": small_resnet_model,
    "swin": small_swin_model,
    "euclidean": lambda: small_model(Euclidean(12)),
    "class tokens": lambda: small_model(ProductSphere(4, 4), readout="class_tokens"),
    "code book": lambda: small_model(readout="code_book"),
    "pooled": lambda: small_model(readout="pooled"),
    "code book of a swin": lambda: small_swin_model(readout="code_book"),
    "token sets": lambda: small_model(TokenSets(4, CONTEXT), readout="token_set"),
    "geodesic": lambda: small_model(ProductSphere(4, 4, distance="geodesic")),
}


def with_words(model: Model) -> Model:
    """The same with a tokenizer, and a text tower that knows as many words."""
    model.tokenizer, former = small_tokens(), model.text_encoder
    config, classes = former.config, former.classes
    model.text_encoder = TextTransformer(config, model.tokenizer.size, model.tokenizer.context + classes - 1, classes)
    return model.float().eval()


def run(path: Path, **inputs: Tensor) -> Tensor:
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return torch.from_numpy(session.run(None, {name: tensor.numpy() for name, tensor in inputs.items()})[0])


@pytest.mark.parametrize(
    "name", [*list(MODELS)[:2], *(pytest.param(name, marks=pytest.mark.slow) for name in list(MODELS)[2:])]
)
def test_both_towers_give_the_models_own_points(tmp_path: Path, name: str):
    model = with_words(MODELS[name]())
    EXPORTS["onnx"](model, tmp_path)
    for count in (1, 5):
        size = model.preprocess.size
        images = torch.randn(count, 3, size, size, generator=torch.Generator().manual_seed(count))
        with torch.no_grad():
            points = model.image_points(images)
        torch.testing.assert_close(run(tmp_path / "image.onnx", pixel_values=images), points, atol=1e-4, rtol=0)
    tokenizer = Tokenizer.from_file(str(tmp_path / "tokenizer.json"))  # as a program without us would read it
    for texts in (CAPTIONS, CAPTIONS[:1]):
        encoded = tokenizer.encode_batch(texts)
        ids, mask = (torch.tensor([getattr(each, part) for each in encoded]) for part in ("ids", "attention_mask"))
        found = run(tmp_path / "text.onnx", input_ids=ids, attention_mask=mask)
        torch.testing.assert_close(found, model.encode_text(texts), atol=1e-4, rtol=0)
    about = json.loads((tmp_path / "model.json").read_text())
    assert about["log_scale"] == model.log_scale.item()
    assert about["dim"] == model.space.dim


def test_an_imported_model_goes_on_to_onnx(open_clip, tmp_path: Path):
    tokens = small_tokens()
    config = small_config("resnet", tokens, quick_gelu=True)
    peer = small_open_clip(open_clip, config)
    export_model(
        str(write_open_clip(tmp_path / "theirs", peer.state_dict(), config, tokens)), "onnx", tmp_path / "onnx"
    )
    images, (ids, mask) = torch.randn(2, 3, 64, 64), tokens(CAPTIONS, pad_to_context=True)
    with torch.no_grad():
        expected = peer.encode_image(images, True), peer.encode_text(ids, True)
    found = run(tmp_path / "onnx" / "image.onnx", pixel_values=images)
    torch.testing.assert_close(found, expected[0], atol=1e-4, rtol=0)
    found = run(tmp_path / "onnx" / "text.onnx", input_ids=ids, attention_mask=mask.long())
    torch.testing.assert_close(found, expected[1], atol=1e-4, rtol=0)
    model = eq.load(tmp_path / "theirs")
    assert "lay_out" not in vars(model.text_encoder)


def test_a_program_that_gives_other_vectors_is_not_handed_over(monkeypatch, tmp_path: Path):
    real = export.Padded.of
    monkeypatch.setattr(export.Padded, "of", lambda mask, _causal, *others: real(mask, False, *others))
    with pytest.raises(UserError, match=r"text\.onnx gives other vectors than the model"):
        EXPORTS["onnx"](with_words(small_model()), tmp_path)


def test_what_is_no_graph_is_refused(tmp_path: Path):
    from equipoise.encoders.precomputed import PrecomputedText

    model = small_model().float()
    model.text_encoder = PrecomputedText.Config(width=16).build(40, 8)
    with pytest.raises(UserError, match="not of a PrecomputedText"):
        EXPORTS["onnx"](model, tmp_path)


@pytest.mark.filterwarnings("ignore:image.onnx")
def test_packages_that_are_not_installed_are_named(monkeypatch, tmp_path: Path):
    model = with_words(small_model())
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.warns(UserWarning, match=r"text\.onnx was not checked.*onnxruntime"):
        EXPORTS["onnx"](model, tmp_path)
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(UserError, match=r"needs the package onnx"):
        EXPORTS["onnx"](model, tmp_path)
