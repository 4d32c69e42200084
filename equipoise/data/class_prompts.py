"""Prompts of every class as token ids: one template per step, the same for all classes, drawn anew.

Averaging over all templates would encode all of them in every step; drawing one encodes C prompts, whatever their
number, and a model that recognises each alone does so together. The draw depends on seed and position
alone. Evaluation looks at all templates (`evaluation/zeroshot.py`).
"""

from __future__ import annotations

import torch
from torch import Tensor

from equipoise.data.files.classes import filled
from equipoise.data.rng import generator
from equipoise.data.side_data import fingerprints
from equipoise.data.source import CLASS_PROMPTS, CLASS_PROMPTS_MASK, CLASSES, LabelledSource
from equipoise.data.tokenizer import CaptionTokenizer


class ClassPrompts:
    """Prompts of all classes; raises UserError for one that is too long, since its end may be the class's name."""

    def __init__(self, source: LabelledSource, tokens: CaptionTokenizer, seed: int):
        names, templates = source.class_names, source.templates
        prompts = [filled((template,), name)[0] for template in templates for name in names]
        ids, mask = tokens(prompts, [f'the class "{name}"' for _ in templates for name in names], strict=True)
        self.ids, self.mask = (tensor.unflatten(0, (len(templates), len(names))) for tensor in (ids, mask))
        self.classes, self.seed = fingerprints(names), seed

    def at(self, position: int) -> dict[str, Tensor]:
        """The `common` data of the batch at `position`."""
        template = int(torch.randint(len(self.ids), (1,), generator=generator(self.seed, "template", position)))
        return {CLASS_PROMPTS: self.ids[template], CLASS_PROMPTS_MASK: self.mask[template], CLASSES: self.classes}
