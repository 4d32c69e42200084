"""What is read out of the fusion encoder: whether image and text belong together, and which words were hidden.

Li et al. 2021, "Align before Fuse" (ALBEF), §3.2 (image-text matching, masked language modelling), §3.3 (momentum
distillation).

    match_cost_i   -log softmax(W c)_1 of pair i, and -log softmax(W c)_0 of text i with a drawn image and of image i
                   with a drawn text, three numbers; c [w] the fused class token      match_count_i 1 where there are
    words_cost_i        Σ_{j hidden} -log p_ij(word ij)              p_ij = softmax(V f_ij + b), f_ij fused word j
    words_soft_cost_i   Σ_{j hidden} -Σ_v q_ij(v) log p_ij(v)        q_ij the same of the moving average of the weights

Negatives are drawn by how alike they are (`ops/hard_negatives.py`): an image's text by exp(t)·s(image, texts of the
moving average), a text's image likewise, among the samples that this process holds, as in the authors' code. A sample
with the same caption, or the same record, is no negative. match_right_i is 1 for those that are told right. Words
are guessed from the caption with hidden words and its image. What the moving average sees is in the batch's `common`
(`Objective.shown`); it makes words_shares [T, V] itself, q of all T hidden words. Logits of words exist in chunks.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from equipoise.data.source import HIDDEN, MASKED_TEXT
from equipoise.encoders.fusion import FusionEncoder
from equipoise.heads.head import Head, Sizes, TowerOutputs
from equipoise.ops.hard_negatives import draw_negatives
from equipoise.types import MOMENTUM, Batch

MATCH = ("match_cost", "match_count", "match_right")
WORDS = ("words_cost", "words_soft_cost")
SHARES = "words_shares"
ROWS = 1024  # samples whose similarities to all others are drawn by at once
CHUNK = 2048  # words whose logits exist at the same time


class FusionHead(Head):
    roles: ClassVar[tuple[str, ...]] = (*MATCH, *WORDS, SHARES)
    reads_tokens: ClassVar[tuple[str, ...]] = ("image", "text")

    @dataclass(frozen=True)
    class Config:
        encoder: FusionEncoder.Config = field(default_factory=FusionEncoder.Config)
        matches: bool = True
        guesses: bool = True  # hidden words

        def build(self, sizes: Sizes) -> FusionHead:
            return FusionHead(self, sizes)

    def __init__(self, config: Config, sizes: Sizes):
        super().__init__()
        width = sizes.text_width
        self.space, self.classes = sizes.space, sizes.classes
        self.fusion = config.encoder.build(width, sizes.image_width // sizes.classes)
        self.match = nn.Linear(width, 2) if config.matches else None
        self.words = nn.Linear(width, sizes.vocabulary) if config.guesses else None

    def forward(self, outputs: TowerOutputs) -> dict[str, Tensor]:
        wanted = outputs.needs
        made: dict[str, Tensor] = {}
        if self.match is not None and wanted & set(MATCH):
            made |= self._matched(outputs)
        if self.words is not None and wanted & {*WORDS, SHARES}:
            made |= self._guessed(outputs)
        return made

    def match_logits(self, text: tuple[Tensor, ...], image: tuple[Tensor, ...]) -> Tensor:
        """Logits [N, 2] of texts and images, each tokens and mask, not to belong together and to."""
        assert self.match is not None
        logits: Tensor = self.match(self.fusion(*text, *image)[:, 0])
        return logits

    def _matched(self, outputs: TowerOutputs) -> dict[str, Tensor]:
        image, text = outputs.sequence("image"), outputs.sequence("text")
        texts, images, some = self._negatives(outputs)
        in_turn = (
            tuple(torch.cat([part, part, part[texts]]) for part in text),
            tuple(torch.cat([part, part[images], part]) for part in image),
        )
        logits = self.match_logits(*in_turn)
        n = len(text[0])
        truth = torch.arange(3 * n, device=logits.device) < n
        costs = F.cross_entropy(_wide(logits), truth.long(), reduction="none")
        counted = torch.cat([torch.ones_like(some), some, some]).to(costs.dtype)
        right = (logits.argmax(1) == truth) * counted
        found = (costs * counted, counted, right.detach())
        return {role: numbers.view(3, n).T.contiguous() for role, numbers in zip(MATCH, found, strict=True)}

    @torch.no_grad()
    def _negatives(self, outputs: TowerOutputs) -> tuple[Tensor, Tensor, Tensor]:
        """A text for each image, an image for each text, and which samples have any."""
        image, text = outputs.points("image"), outputs.points("text")
        seen = {role: outputs.batch.common.get(f"{MOMENTUM}{role}") for role in ("image", "text")}
        texts, some = self._drawn(image, text if seen["text"] is None else seen["text"], outputs)
        images, _ = self._drawn(text, image if seen["image"] is None else seen["image"], outputs)
        return texts, images, some

    def _drawn(self, rows: Tensor, cols: Tensor, outputs: TowerOutputs) -> tuple[Tensor, Tensor]:
        numbers = _same(outputs.batch)
        drawn = []
        with torch.autocast(rows.device.type, enabled=False):
            for chunk in torch.arange(len(rows), device=rows.device).split(ROWS):
                logits = outputs.log_scale.exp() * self.space.similarity(rows[chunk].to(cols), cols)
                excluded = [number[chunk, None] == number for number in numbers]
                drawn.append(draw_negatives(logits, torch.stack(excluded).any(0)))
        return torch.cat([columns for columns, _ in drawn]), torch.cat([some for _, some in drawn])

    def _guessed(self, outputs: TowerOutputs) -> dict[str, Tensor]:
        fused = self.fusion(*outputs.sequence(MASKED_TEXT), *outputs.sequence("image"))[:, self.classes :]
        hidden, answers = (each[:, -fused.shape[1] :] for each in (outputs.side(HIDDEN), outputs.batch.tokens))
        features, samples = fused[hidden], hidden.nonzero()[:, 0]
        assert self.words is not None
        if SHARES in outputs.needs:
            return {SHARES: _wide(self.words(features)).softmax(1)}
        shares = outputs.batch.common.get(f"{MOMENTUM}{SHARES}")
        chunks = zip(
            features.split(CHUNK),
            answers[hidden].split(CHUNK),
            [None] * len(features.split(CHUNK)) if shares is None else shares.split(CHUNK),
            strict=True,
        )
        costs = torch.cat([self._chunk(*chunk) for chunk in chunks])
        of_samples = costs.new_zeros(len(fused), 2).index_add(0, samples, costs)
        return {role: of_samples[:, column].clone() for column, role in enumerate(WORDS)}  # FSDP2 wants no views

    def _chunk(self, features: Tensor, answers: Tensor, shares: Tensor | None) -> Tensor:
        if len(features) < CHUNK:
            return self._costs(features, answers, shares)
        costs = checkpoint(self._costs, features, answers, shares, use_reentrant=False)
        assert isinstance(costs, Tensor)
        return costs

    def _costs(self, features: Tensor, answers: Tensor, shares: Tensor | None) -> Tensor:
        """Costs [T, 2] of hidden words: against what they were, and against the shares [T, V] that a teacher gives."""
        assert self.words is not None
        logs = _wide(self.words(features)).log_softmax(1)
        hard = -logs.gather(1, answers[:, None])[:, 0]
        soft = torch.zeros_like(hard) if shares is None else -(shares.to(logs.dtype) * logs).sum(1)
        return torch.stack([hard, soft], 1)


def _same(batch: Batch) -> tuple[Tensor, Tensor]:
    """Numbers [N] of captions and of records: samples that have one in common are not each other's negatives."""
    words = batch.tokens.flatten(1)
    captions = torch.unique(words, dim=0, return_inverse=True)[1]
    return captions, batch.index.to(captions.device)


def _wide(logits: Tensor) -> Tensor:
    return logits.float() if logits.dtype in (torch.bfloat16, torch.float16) else logits
