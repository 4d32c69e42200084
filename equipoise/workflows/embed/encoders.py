"""The encoders that compute features, by name.

runs/mine                         a model folder: points, or what its readouts read: class tokens, mean over tokens
timm:NAME                         an image model of timm, its weights from a file or, where asked, the hub
transformers:FOLDER               a text model, mean over tokens or what a sentence-transformers folder says; or an
                                  image model, its class token or the mean over places
sentence-transformers:FOLDER      the same
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from equipoise.data.tokenizer import CaptionTokenizer
from equipoise.encoders.pretrained import import_transformers
from equipoise.encoders.timm_image import TimmImage, timm_preprocess
from equipoise.encoders.transformers_image import TransformersImage, image_preprocess
from equipoise.encoders.transformers_text import TransformersText
from equipoise.models.folder import WEIGHTS, model_folder
from equipoise.models.model import Model
from equipoise.training.device import torch_device
from equipoise.types import UserError
from equipoise.workflows.embed.write import Finish, ImageSide, TextSide
from equipoise.workflows.load import load

LONGEST = 512  # tokens of a text, where a model has room for more


@dataclass(frozen=True)
class EmbedRequest:
    """The options of the command that choose the encoders."""

    model: str
    text: str = ""  # another model for the texts
    weights: str = ""  # a file, for timm
    pretrained: bool = False  # weights may come from the hub
    before_projection: bool = False


@dataclass(frozen=True)
class Sides:
    """The two encoders of an embedder; one that only reads images, or only texts, lacks the other."""

    images: ImageSide | None
    texts: TextSide | None
    digest: str = ""  # of the weights, so that other weights under the same name are noticed
    model: Model | None = None

    def features(self, request: EmbedRequest) -> str:
        """What is written, in words for the note."""
        if not request.before_projection:
            return "as the model gives them"
        return "class tokens" if self.model is None else what_is_read(self.model)


def sides_of(name: str, request: EmbedRequest) -> Sides:
    kind, colon, rest = name.partition(":")
    if colon and kind in KINDS:
        return KINDS[kind](rest, request)
    return _model(name, request)


def _model(name: str, request: EmbedRequest) -> Sides:
    model = load(name, "auto")

    def finish(tower: str) -> Finish:
        if request.before_projection:
            return model.tower(tower).readout.before_projection
        return lambda features: model.read(tower, features)

    images = ImageSide(model.image_encoder, model.preprocess, finish("image"))
    texts = TextSide(model.text_encoder, model.tokens, finish("text"))
    return Sides(images, texts, digest_of(model_folder(Path(name)) / WEIGHTS), model)


def what_is_read(model: Model) -> str:
    """What both readouts of the model read, before their projection."""
    return "class tokens" if model.image_readout.reads_classes else "mean over tokens"


def _timm(name: str, request: EmbedRequest) -> Sides:
    if not request.weights and not request.pretrained:
        raise UserError(f"timm:{name} needs weights; give --weights FILE, or --pretrained to fetch them from the hub")
    preprocess, resized = timm_preprocess(name)
    encoder = TimmImage.Config(name, request.weights, pretrained=not request.weights).build(preprocess.size)
    encoder.load_pretrained()
    digest = digest_of(Path(request.weights)) if request.weights else ""
    return Sides(ImageSide(encoder.to(torch_device("auto")), preprocess, resized=resized), None, digest)


def _transformers(name: str, request: EmbedRequest) -> Sides:
    transformers, folder = import_transformers(), Path(name)
    if not folder.is_dir():
        if not request.pretrained:
            raise UserError(f"{name}: there is no such folder; correct it, or give --pretrained to fetch that name")
        folder = Path(_fetched(name))
    config = transformers.AutoConfig.from_pretrained(folder, trust_remote_code=False)
    digest = digest_of(*sorted(folder.glob("*.safetensors")))
    if not hasattr(config, "vocab_size"):
        return Sides(_image_side(folder), None, digest)
    room = getattr(config, "max_position_embeddings", LONGEST)
    tokens = CaptionTokenizer.load(folder, min(room, LONGEST))
    encoder = TransformersText.Config(str(folder), pretrained=True).build(tokens.size, tokens.context)
    encoder.load_pretrained()
    texts = TextSide(encoder.to(torch_device("auto")), tokens)
    return Sides(None, texts, digest)


def _image_side(folder: Path) -> ImageSide:
    preprocess, resized = image_preprocess(folder)
    encoder = TransformersImage.Config(str(folder), pretrained=True).build(preprocess.size)
    encoder.load_pretrained()
    return ImageSide(encoder.to(torch_device("auto")), preprocess, resized=resized)


def _fetched(name: str) -> str:
    """The folder of a model of the hub, downloaded unless it was before."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    try:
        return snapshot_download(name, allow_patterns=["*.json", "*.txt", "*.safetensors", "1_Pooling/*"])
    except (OSError, HfHubHTTPError, HFValidationError, LocalEntryNotFoundError) as error:
        raise UserError(f"{name} cannot be fetched from the hub: {str(error).splitlines()[0]}") from error


def digest_of(*files: Path) -> str:
    digest = hashlib.sha256()
    for file in files:
        with file.open("rb") as stream:
            digest.update(hashlib.file_digest(stream, "sha256").digest())
    return digest.hexdigest()[:16]


KINDS: dict[str, Callable[[str, EmbedRequest], Sides]] = {
    "timm": _timm,
    "transformers": _transformers,
    "sentence-transformers": _transformers,
}
