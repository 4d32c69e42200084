"""The model: two encoders, two readouts and what they share, a space, a logit scale, tokenizer and preprocessing.

    images --image encoder--> Features --readout--> vectors --space.project, shift--> points
    texts  --text encoder---> Features --readout--> vectors --space.project, shift--> points

`encode_image` and `encode_text` are what people call; `forward` is what training calls.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from torch import Tensor, nn

from equipoise.data.preprocess import Preprocess
from equipoise.data.source import TAGS_MASK
from equipoise.data.tokenizer import CaptionTokenizer, NoTokenizer
from equipoise.encoders import ImageConfig, TextConfig, TextTransformer
from equipoise.encoders.encoder import Encoder
from equipoise.heads import Head, HeadConfig, Sizes
from equipoise.models.base import AlignedModel, count_parameters, evaluating
from equipoise.models.captioning import Decoding, caption_ids, caption_images
from equipoise.models.class_prompts import pivot_points
from equipoise.models.embedding_shift import EmbeddingShift
from equipoise.models.encode_chunks import EncodeAll, encode_in_chunks
from equipoise.models.explanation import Explanation
from equipoise.models.forward_cache import TOWER_OF, ForwardCache
from equipoise.models.logit_scale import LogitScale
from equipoise.models.matching import Inputs, match_log_odds, matching_head
from equipoise.models.prompts import Prompts
from equipoise.models.region_branch import RegionBranch, tags_of
from equipoise.models.tower import Tower, widened
from equipoise.readouts import ReadoutConfig
from equipoise.spaces import Space
from equipoise.types import Batch, Embeddings, Features, UserError

ImageLike = Image.Image | str | Path
__all__ = ["ImageLike", "Model", "count_parameters", "evaluating"]


class Model(AlignedModel):
    """A tower of images and one of texts, into one space; `eq.load` gives one, ready to encode."""

    encode_all: EncodeAll = staticmethod(encode_in_chunks)  # encodes a whole data set; several processes share it

    def __init__(
        self,
        *,
        image: ImageConfig,
        text: TextConfig,
        readout: ReadoutConfig,
        space: Space,
        temperature: LogitScale,
        preprocess: Preprocess,
        tokens: CaptionTokenizer,
        regions: RegionBranch.Config | None = None,
        bias: float | None = None,
        heads: Mapping[str, HeadConfig] | None = None,
        shift: EmbeddingShift.Config | None = None,
        prompts: Prompts.Config | None = None,
    ):
        super().__init__(space, temperature, preprocess, tokens, bias)
        classes = readout.class_tokens(space)
        self.image_encoder = image.build(preprocess.size, classes)
        learned = prompts or Prompts.Config()
        context = tokens.context + classes - 1 + learned.room  # texts start with one class token
        self.text_encoder = text.build(tokens.size, context, classes)
        if self.text_encoder.reads == "words" and isinstance(tokens, NoTokenizer):
            raise UserError("this model's texts are words, but it has no tokenizer; give tokens.kind or tokenizer.json")
        self.image_readout = readout.build(self.image_encoder.width, space, "image")
        self.text_readout = readout.build(self.text_encoder.width, space, "text")
        self.shared = readout.shared(space)
        self.regions = (regions or RegionBranch.Config()).build(self.image_encoder)
        self.shift = (shift or EmbeddingShift.Config()).build(space)
        widths = (classes * self.image_encoder.width, self.text_encoder.width)
        sizes = Sizes(space, *widths, tokens.size, self.text_encoder.causal, classes, tokens.context)
        self.heads = nn.ModuleDict({name: config.build(sizes) for name, config in (heads or {}).items()})
        self.prompts = learned.build(self.image_encoder, self.text_encoder)

    def forward(self, batch: Batch, needs: Sequence[str] = ("image", "text")) -> Embeddings:
        """Embeddings of the batch in the roles that an objective needs, and no others."""
        heads = [head for head in self.all_heads() if set(head.roles) & set(needs)]
        image, text = self.tower("image"), self.tower("text")
        with_tokens, t = _towers_with_tokens((image, text), heads), self.log_scale.detach()
        cache = ForwardCache({"image": image, "text": text}, batch, with_tokens, frozenset(needs), t)
        reads_words = self.text_encoder.reads == "words"
        makers: dict[str, Callable[[], Tensor]] = {
            **{view: partial(cache.points, view) for view in TOWER_OF},
            **({"regions": lambda: self._region_points(batch)} if self.regions else {}),
            **({"tags": lambda: _tag_points(text, batch)} if reads_words else {}),
            **({"pivots": lambda: pivot_points(text.points, batch)} if reads_words else {}),
        }
        further = {role for head in heads for role in head.roles}
        if unknown := set(needs) - set(makers) - further:
            raise UserError(
                f"this model cannot produce {', '.join(sorted(unknown))}, which the objective needs; "
                "regions need regions.width, tags and pivots a text encoder that reads words, others a head; softclip "
                "does without regions and tags by objective.guide.name=image_text"
            )
        embeddings = {role: makers[role]() for role in needs if role in makers}
        for head in heads:
            embeddings |= {role: widened(rows) for role, rows in head(cache).items()}
        return Embeddings.of({role: embeddings[role] for role in needs})

    def encoders(self) -> Sequence[Encoder]:
        """What reads the inputs, each a module of its own."""
        return self.image_encoder, self.text_encoder

    @property
    def leaves_unused(self) -> bool:
        """Whether some parameters may be left without a gradient, for which DDP must not wait."""
        return not self.image_readout.reads_classes

    def described(self) -> tuple[str, str]:
        """What it is, and lines of Python that use it, for the card."""
        lines = (
            'images = model.encode_image(["a.jpg"])',
            'texts = model.encode_text(["a red fish"])',
            "model.similarity(images, texts)",
        )
        return "image-text model", "\n".join(lines)

    def tower(self, name: str) -> Tower:
        """The image or the text tower, made of the modules that the model has now: wrappers may replace them."""
        encoder, readout = (
            (self.image_encoder, self.image_readout) if name == "image" else (self.text_encoder, self.text_readout)
        )
        return Tower(name, encoder, readout, self.shared, self.space, self.shift)

    def image_points(self, images: Tensor, mask: Tensor | None = None) -> Tensor:
        """Points [N, d] of preprocessed images [N, 3, H, W], or of image features, with a mask where some of their
        tokens are padding."""
        return self.tower("image").points(images, *(() if mask is None else (mask,)))

    def text_points(self, batch: Batch) -> Tensor:
        """Points [N, d] of the batch's captions."""
        return self.tower("text").points(batch.tokens, batch.mask, lengths=batch.lengths.get("mask"))

    def read(self, tower: str, features: Features) -> Tensor:
        """Points [N, d] of encoder output, by the readout of its tower, "image" or "text"."""
        return self.tower(tower).read(features)

    def _region_points(self, batch: Batch) -> Tensor:
        assert self.regions is not None
        features = self.regions(self.image_encoder, batch, classes_only=not self.image_readout.reads_tokens)
        return self.read("image", features)

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> Any:
        """Like nn.Module's; prompts missing from the checkpoint are initialised from its token embeddings."""
        outcome = super().load_state_dict(state_dict, strict=strict, assign=assign)
        if self.prompts is not None and any(key.startswith("prompts.") for key in outcome.missing_keys):
            assert isinstance(self.text_encoder, TextTransformer)
            self.prompts.start_from(self.text_encoder.words, self.tokenizer)
        return outcome

    def load_pretrained(self) -> None:
        """Load pretrained weights into the encoders whose settings name some."""
        self.image_encoder.load_pretrained()
        self.text_encoder.load_pretrained()

    def facts(self) -> dict[str, float]:
        """Numbers for the log beside the logit scale: the bias, and what both readouts share (usage of codes)."""
        return {**super().facts(), **(self.shared.facts() if self.shared else {})}

    @torch.no_grad()
    def encode_image(
        self, images: Tensor | ImageLike | Sequence[ImageLike], batch_size: int = 256, mask: Tensor | None = None
    ) -> Tensor:
        """Points [N, d] of PIL images, paths, or uint8 pixels [N, 3, H, W]. A model that was trained on features takes
        those instead, [N, w] or [N, P, w] with a `mask` [N, P] where some tokens are padding."""
        if isinstance(images, (Image.Image, str, Path)):
            images = [images]
        with evaluating(self):
            parts = [
                self._encode_pictures(images[i : i + batch_size], None if mask is None else mask[i : i + batch_size])
                for i in range(0, len(images), batch_size)
            ]
        return torch.cat(parts) if parts else torch.empty(0, self.space.dim, device=self.device)

    @torch.no_grad()
    def encode_text(
        self, texts: str | Sequence[str] | Tensor, batch_size: int = 1024, mask: Tensor | None = None
    ) -> Tensor:
        """Points [N, d] of strings; a model that was trained on features takes those instead, as `encode_image`."""
        texts = [texts] if isinstance(texts, str) else texts
        with evaluating(self):
            parts = [
                self._encode_strings(texts[i : i + batch_size], None if mask is None else mask[i : i + batch_size])
                for i in range(0, len(texts), batch_size)
            ]
        return torch.cat(parts) if parts else torch.empty(0, self.space.dim, device=self.device)

    def caption(
        self,
        images: Tensor | ImageLike | Sequence[ImageLike],
        method: str = "greedy",
        batch_size: int = 64,
        mask: Tensor | None = None,
        **settings: Any,
    ) -> list[str]:
        """Captions that the model writes of images, as `encode_image` takes them: `method` is greedy, top_k, top_p or
        beam, `settings` those of `models/captioning/settings.py` (longest=30, beams=4, ...)."""
        if isinstance(images, (Image.Image, str, Path)):
            images = [images]
        if unknown := set(settings) - {setting.name for setting in fields(Decoding)}:
            raise UserError(f"captions have no setting {', '.join(sorted(unknown))}; see docs/caption.md")
        with evaluating(self):
            return list(caption_images(self, images, Decoding(method, **settings), batch_size, mask))

    @torch.no_grad()
    def match(self, images: Sequence[ImageLike] | Tensor, texts: Sequence[str]) -> Tensor:
        """Log-odds [N] that each image and the text at its place belong together, by a model that fuses them."""
        if len(images) != len(texts):
            raise UserError(f"there are {len(images)} images and {len(texts)} texts; give a text for each image")
        pairs = torch.arange(len(texts))[:, None].expand(-1, 2)
        ids, mask = self.text_encoder.prepare(texts, None, self.tokenizer)
        pixels = self.image_encoder.prepare(images, self.preprocess).to(self.device)
        return self._match_prepared((pixels,), (ids.to(self.device), mask.to(self.device)), pairs)

    def explain(
        self, image: ImageLike, text: str, method: str = "auto", part: int | Sequence[int] | None = None
    ) -> Explanation:
        """Relevance of the image's places and the text's words for their similarity (`eq.explain`, which names the
        methods); `part` is a pair of class tokens, a code or a pair of tokens."""
        public = import_module("equipoise")  # whose function is of a folder above this one, found when it is called
        explanation: Explanation = public.explain(self, image, text, method, part)
        return explanation

    def _encode_pictures(self, images: Tensor | Sequence[ImageLike], mask: Tensor | None) -> Tensor:
        prepared = self.image_encoder.prepare(images, self.preprocess).to(self.device)
        return self.image_points(prepared, None if mask is None else mask.to(self.device))

    def caption_batch(self, images: Tensor, settings: Decoding, mask: Tensor | None, first: int) -> list[list[int]]:
        """Token ids of captions; a method, so that a sharded model gathers its weights for it."""
        return list(caption_ids(self, images, settings, mask, first))

    def _match_prepared(self, images: Inputs, texts: Inputs, pairs: Tensor) -> Tensor:
        towers = (self.tower("image"), images), (self.tower("text"), texts)
        with evaluating(self):
            return match_log_odds(matching_head(self.all_heads()), *towers, pairs)

    def _encode_strings(self, texts: Sequence[str] | Tensor, mask: Tensor | None) -> Tensor:
        ids, mask = self.text_encoder.prepare(texts, mask, self.tokenizer)
        return self.tower("text").points(ids.to(self.device), mask.to(self.device))


def _tag_points(text: Tower, batch: Batch) -> Tensor:
    return text.points(*tags_of(batch), lengths=batch.lengths.get(TAGS_MASK))


def _towers_with_tokens(towers: Sequence[Tower], heads: Sequence[Head]) -> frozenset[str]:
    """Names of the towers whose token features a readout or a head reads."""
    by_readouts = {tower.name for tower in towers if tower.readout.reads_tokens}
    return frozenset(by_readouts.union(*(head.reads_tokens for head in heads)))
