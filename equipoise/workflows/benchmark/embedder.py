"""Any model as the benchmark sees it: pictures and texts go in, points of a space come out.

runs/demo, a transformers or open_clip folder, a file of weights    what `equipoise.load` reads
a folder with image.onnx and text.onnx                              what `equipoise export --to onnx` writes
open_clip:NAME, open_clip:NAME:WEIGHTS                              what open_clip builds: random weights of seed 0,
                                                                    a file of weights, or a published tag
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import torch
from torch import Tensor

from equipoise.data.files.image_source import Pictures
from equipoise.evaluation.encoding import Captions, encode_images
from equipoise.evaluation.zeroshot import SpaceLike
from equipoise.interop import is_foreign
from equipoise.models.folder import model_folder
from equipoise.models.model import Model
from equipoise.training.distributed.ranks import Ranks
from equipoise.training.distributed.sharded_encoding import sharded_encoding
from equipoise.workflows.benchmark.onnx_pair import IMAGE_PROGRAM, OnnxPair
from equipoise.workflows.benchmark.open_clip_model import OPEN_CLIP, OpenClipModel
from equipoise.workflows.benchmark.weights_digest import weights_digest
from equipoise.workflows.load import load

BATCH = 256


class Embedder(Protocol):
    """A model that is benchmarked."""

    name: str  # as it was given
    pretrained: str  # what CLIP_benchmark calls the weights of an architecture

    @property
    def space(self) -> SpaceLike: ...

    def digest(self) -> str:
        """Of all that decides its points."""
        ...

    def images(self, source: Pictures) -> Tensor:
        """Points of all pictures [N, d]."""
        ...

    def texts(self, texts: Sequence[str]) -> Tensor:
        """Points of texts [M, d]."""
        ...


class OwnModel:
    """A model of ours, or one that was read as such; ranks share its work under torchrun."""

    pretrained = ""

    def __init__(self, name: str, model: Model, ranks: Ranks):
        self.name, self.model, self.ranks, self.space = name, model, ranks, model.space

    def digest(self) -> str:
        tokenizer = self.model.tokenizer
        about = (repr(self.space), self.model.preprocess.to_json(), tokenizer.context, tokenizer.size)
        return weights_digest(about, self.model.state_dict().items())

    def images(self, source: Pictures) -> Tensor:
        with sharded_encoding(self.model, self.ranks):
            return encode_images(self.model, source, BATCH).cpu()

    def texts(self, texts: Sequence[str]) -> Tensor:
        with sharded_encoding(self.model, self.ranks):
            return Captions(list(texts), torch.arange(len(texts))).points(self.model).cpu()


def find_embedder(word: str, device: torch.device, ranks: Ranks, download: bool = False) -> Embedder:
    """The model that a word names."""
    if word.startswith(OPEN_CLIP):
        return OpenClipModel(word, device, download)
    if (Path(word) / IMAGE_PROGRAM).is_file():
        return OnnxPair(word)
    if not is_foreign(word):
        model_folder(Path(word))  # raises UserError where there is none
    return OwnModel(word, load(word, device), ranks)
