"""A model that open_clip builds, with open_clip's own preparation of pictures and texts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from PIL import Image
from torch import Tensor

from equipoise.data.files.image_source import Pictures
from equipoise.io.progress import Progress
from equipoise.spaces import Sphere
from equipoise.types import UserError
from equipoise.workflows.benchmark.weights_digest import weights_digest

OPEN_CLIP = "open_clip:"
BATCH, TEXTS = 64, 256


class OpenClipModel:
    """`open_clip:NAME`, with random weights of seed 0, or `open_clip:NAME:WEIGHTS`, a file or a published tag."""

    def __init__(self, word: str, device: torch.device, download: bool = False):
        architecture, _, self.pretrained = word.removeprefix(OPEN_CLIP).partition(":")
        self.name, self.device = word, device
        try:
            import open_clip
        except ImportError:
            raise UserError(f"{word} needs open_clip; pip install open_clip_torch") from None
        except RuntimeError as error:  # of a torchvision that was built for another torch
            raise UserError(f"{word}: open_clip cannot be imported ({error}); mend its installation") from None
        if architecture not in open_clip.list_models():
            raise UserError(f'{word}: open_clip has no model "{architecture}"; open_clip.list_models() names them')
        if self.pretrained and not download and not Path(self.pretrained).is_file():
            raise UserError(f"{word}: there is no file {self.pretrained}; a tag of published weights needs --download")
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            model, _, self.prepare = open_clip.create_model_and_transforms(
                architecture, pretrained=self.pretrained or None
            )
        self.model, self.tokenizer = model.to(device).eval(), open_clip.get_tokenizer(architecture)
        self.space = Sphere(self.texts(["a"]).shape[1])

    def digest(self) -> str:
        return weights_digest((self.name, str(self.prepare)), self.model.state_dict().items())

    @torch.no_grad()
    def images(self, source: Pictures) -> Tensor:
        parts = []
        with Progress(len(source), "pictures", lines=False) as progress:
            for start in range(0, len(source), BATCH):
                chosen = range(start, min(start + BATCH, len(source)))
                pictures = [Image.fromarray(source.encoded(index).pixels()) for index in chosen]
                batch = torch.stack([self.prepare(picture) for picture in pictures]).to(self.device)
                parts.append(self._unit(self.model.encode_image(batch)))
                progress.update(chosen.stop)
        return torch.cat(parts)

    @torch.no_grad()
    def texts(self, texts: Sequence[str]) -> Tensor:
        several = (texts[start : start + TEXTS] for start in range(0, len(texts), TEXTS))
        return torch.cat([
            self._unit(self.model.encode_text(self.tokenizer(list(some)).to(self.device))) for some in several
        ])  # fmt: skip

    @staticmethod
    def _unit(vectors: Tensor) -> Tensor:
        return torch.nn.functional.normalize(vectors, dim=-1).cpu()
