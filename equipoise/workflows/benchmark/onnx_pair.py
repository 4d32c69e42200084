"""Two ONNX programs as a model: the folder that `equipoise export --to onnx` writes, run by onnxruntime."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from equipoise.data.files.image_source import Pictures
from equipoise.data.preprocess import Preprocess
from equipoise.data.tokenizer import CaptionTokenizer
from equipoise.io.json_files import read_json_table
from equipoise.io.progress import Progress
from equipoise.models.folder import PREPROCESS
from equipoise.spaces import Euclidean, Sphere
from equipoise.types import UserError

IMAGE_PROGRAM, TEXT_PROGRAM, ABOUT = "image.onnx", "text.onnx", "model.json"
SPACES = {"Sphere": Sphere, "Euclidean": Euclidean}
BATCH = 64


class OnnxPair:
    """image.onnx, text.onnx, a tokenizer, preprocess.json and model.json in a folder."""

    pretrained = ""

    def __init__(self, word: str):
        self.name, self.folder = word, Path(word)
        about = read_json_table(self.folder / ABOUT, "export the model again")
        space, dim, context = (about.get(key) for key in ("space", "dim", "context"))
        if space not in SPACES or not isinstance(dim, int) or not isinstance(context, int):
            raise UserError(
                f"{self.folder / ABOUT}: points of the space {space} cannot be compared by this file alone; give "
                "the model folder that it was exported from"
            )
        self.space = SPACES[space](dim)
        self.preprocess = Preprocess.from_json(read_json_table(self.folder / PREPROCESS))
        self.tokens = CaptionTokenizer.load(self.folder, context)
        self.programs = {name: _session(self.folder / name) for name in (IMAGE_PROGRAM, TEXT_PROGRAM)}

    def digest(self) -> str:
        digest = hashlib.blake2b(digest_size=16)
        for name in (IMAGE_PROGRAM, TEXT_PROGRAM, ABOUT, PREPROCESS, "tokenizer.json"):
            if (file := self.folder / name).is_file():
                digest.update(name.encode() + file.read_bytes())
        return digest.hexdigest()

    def images(self, source: Pictures) -> Tensor:
        parts = []
        with Progress(len(source), "pictures", lines=False) as progress:
            for start in range(0, len(source), BATCH):
                chosen = range(start, min(start + BATCH, len(source)))
                pixels = self.preprocess.normalised(source.images(chosen, self.preprocess.side))
                parts.append(self._run(IMAGE_PROGRAM, pixel_values=pixels))
                progress.update(chosen.stop)
        return torch.cat(parts)

    def texts(self, texts: Sequence[str]) -> Tensor:
        parts = []
        for start in range(0, len(texts), BATCH):
            ids, mask = self.tokens(list(texts[start : start + BATCH]))
            parts.append(self._run(TEXT_PROGRAM, input_ids=ids, attention_mask=mask.long()))
        return torch.cat(parts)

    def _run(self, program: str, **inputs: Tensor) -> Tensor:
        found = self.programs[program].run(None, {name: tensor.numpy() for name, tensor in inputs.items()})
        return torch.from_numpy(found[0])


def _session(file: Path) -> Any:
    try:
        import onnxruntime
    except ImportError:
        raise UserError(f"{file} needs onnxruntime to run; pip install 'equipoise[onnx]'") from None
    try:
        return onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime has errors of its own
        raise UserError(f"{file} cannot be read as an ONNX program ({str(error).splitlines()[0][:120]})") from None
