"""What is said of every class, as token ids: one template a step, the same for all classes, drawn anew.

Averaging over all templates would ask the text tower for all of them in every step; drawing one asks for C prompts,
whatever their number, and a model that recognises each alone does so together. The draw depends on seed and position
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
    """Prompts of all classes; too long a one is refused, for its end may be the class's name."""

    def __init__(self, source: LabelledSource, tokens: CaptionTokenizer, seed: int):
        names, templates = source.class_names, source.templates
        said = [filled((template,), name)[0] for template in templates for name in names]
        ids, mask = tokens(said, [f'the class "{name}"' for _ in templates for name in names], strict=True)
        self.ids, self.mask = (tensor.unflatten(0, (len(templates), len(names))) for tensor in (ids, mask))
        self.classes, self.seed = fingerprints(names), seed

    def at(self, position: int) -> dict[str, Tensor]:
        """Of the batch at `position`, for its `common` data."""
        template = int(torch.randint(len(self.ids), (1,), generator=generator(self.seed, "template", position)))
        return {CLASS_PROMPTS: self.ids[template], CLASS_PROMPTS_MASK: self.mask[template], CLASSES: self.classes}
