"""Export of both towers as ONNX programs, from encoder inputs to points of the space, for any number of samples.

    image.onnx    pixel_values [N, 3, H, W], prepared as preprocess.json says   ->  image_embeds [N, d]
    text.onnx     input_ids and attention_mask [N, L], as tokenizer.json gives  ->  text_embeds [N, d]

Inputs and outputs have the names that exports of other CLIPs have. Every model whose towers are ours can be written, in
any space and with any readout: a code book's sparsemax, which takes as many steps as the data need, is written as a
sort. The programs are run by onnxruntime, where that is installed, and compared with the model itself on random input
before they are handed over.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from equipoise.encoders import ResNet, SiglipImage, SiglipText, Swin, TextTransformer, ViT
from equipoise.encoders.packing import Padded
from equipoise.io.atomic import write_text
from equipoise.models.folder import PREPROCESS
from equipoise.models.model import Model
from equipoise.types import Batch, UserError

OPSET = 17
TOLERANCE = 1e-4
IMAGES, TEXTS = ("pixel_values",), ("input_ids", "attention_mask")
OUTPUTS = {"image.onnx": "image_embeds", "text.onnx": "text_embeds"}
IMAGE_TOWERS, TEXT_TOWERS = (ViT, ResNet, Swin, SiglipImage), (TextTransformer, SiglipText)
SAMPLES = 3  # of a check; one is traced with two


class ImageTower(nn.Module):
    def __init__(self, model: Model):
        super().__init__()
        self.model = model

    def forward(self, pixel_values: Tensor) -> Tensor:
        return self.model.image_points(pixel_values)


class TextTower(nn.Module):
    def __init__(self, model: Model):
        super().__init__()
        self.model = model

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        return self.model.text_points(Batch(input_ids, input_ids, attention_mask > 0, input_ids))


def write_onnx(model: Model, folder: Path) -> None:
    _require_graph(model)
    _require_package()
    model = model.cpu().float().eval()
    _export(ImageTower(model), _images(model, 2), folder / "image.onnx", IMAGES, {0: "samples"})
    with _padded(model):
        _export(TextTower(model), _texts(model, 2), folder / "text.onnx", TEXTS, {0: "samples", 1: "tokens"})
    _check(folder / "image.onnx", IMAGES, _images(model, SAMPLES), ImageTower(model))
    _check(folder / "text.onnx", TEXTS, _texts(model, SAMPLES), TextTower(model))  # packed, as the model reads them
    model.tokenizer.save(folder)
    write_text(folder / PREPROCESS, json.dumps(model.preprocess.to_json(), indent=2) + "\n")
    about = {
        "space": type(model.space).__name__,
        "dim": model.space.dim,
        "log_scale": model.log_scale.item(),
        "logit_bias": None if model.logit_bias is None else model.logit_bias.item(),
        "context": model.tokenizer.context,
        "opset": OPSET,
    }
    write_text(folder / "model.json", json.dumps(about, indent=2) + "\n")


def _require_graph(model: Model) -> None:
    """Raise UserError for a model that cannot be written as one graph."""
    for encoder, kinds in ((model.image_encoder, IMAGE_TOWERS), (model.text_encoder, TEXT_TOWERS)):
        if not isinstance(encoder, kinds):
            known = ", ".join(kind.__name__ for kind in kinds)
            raise UserError(f"ONNX is written of {known}, not of a {type(encoder).__name__}; choose another tower")


def _require_package() -> None:
    try:
        import onnx  # noqa: F401  with which torch writes
    except ImportError as error:
        raise UserError("writing ONNX needs the package onnx; pip install 'equipoise[onnx]'") from error


def _images(model: Model, count: int) -> tuple[Tensor, ...]:
    size, generator = model.preprocess.size, torch.Generator().manual_seed(count)
    return (torch.randn(count, 3, size, size, generator=generator),)


def _texts(model: Model, count: int) -> tuple[Tensor, ...]:
    """Random texts of different lengths, the longest shorter than the context where possible."""
    tokenizer, generator = model.tokenizer, torch.Generator().manual_seed(count)
    width = max(3, tokenizer.context - count)
    lengths = torch.randint(3, width + 1, (count,), generator=generator)
    ids = torch.randint(tokenizer.size, (count, width), generator=generator)
    if tokenizer.start is not None:
        ids[:, 0] = tokenizer.start
    ids[torch.arange(count), lengths - 1] = tokenizer.end
    mask = torch.arange(width) < lengths[:, None]
    return ids.where(mask, torch.tensor(tokenizer.pad)), mask.long()


@contextmanager
def _padded(model: Model) -> Iterator[None]:
    """Context in which texts keep their padding: shapes of a graph cannot depend on the data."""
    encoder = model.text_encoder
    if not isinstance(encoder, TextTransformer):  # SigLIP's has them padded always
        yield
        return
    encoder.lay_out = Padded.of
    try:
        yield
    finally:
        del encoder.lay_out


def _export(tower: nn.Module, inputs: tuple[Tensor, ...], path: Path, names: tuple[str, ...], axes: Any) -> None:
    output = OUTPUTS[path.name]
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # of the tracer: the result is checked below
        torch.onnx.export(
            tower.eval(),
            inputs,
            str(path),
            dynamo=False,  # the other exporter needs two more packages and half a minute
            opset_version=OPSET,
            input_names=list(names),
            output_names=[output],
            dynamic_axes={**dict.fromkeys(names, axes), output: {0: "samples"}},
        )


def _check(path: Path, names: tuple[str, ...], inputs: tuple[Tensor, ...], tower: nn.Module) -> None:
    try:
        import onnxruntime
    except ImportError:
        warnings.warn(f"{path.name} was not checked, for onnxruntime is not installed", stacklevel=3)
        return
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    feed = {name: tensor.numpy() for name, tensor in zip(names, inputs, strict=True)}
    with torch.no_grad():
        expected = tower.eval()(*inputs)
    error = float((torch.from_numpy(session.run(None, feed)[0]) - expected).abs().max())
    if not error <= TOLERANCE:
        raise UserError(f"{path.name} gives other vectors than the model, {error:.1e} apart; nothing was written")
