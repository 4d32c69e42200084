"""Multi-modal prompts: a few learned tokens in the first blocks of both towers, those of images made of those of texts.

Khattak et al. 2023, "MaPLe: Multi-modal Prompt Learning", §3.

    P_k [n, w_t]               k = 1 ... depth: learned tokens of the text tower
    P̃_k = P_k A_k + a_k        [n, w_v]: those of the image tower; a linear map of its own for each k
    texts      [start, P_1, words, end], all with positions
    images     [class, patches] with positions, P̃_1 without; then the first norm
    before block k = 2 ... depth, P_k, or P̃_k, replaces the output at P's places

n = `length` (2 in the paper), depth 9 of 12 blocks. Deeper blocks see the output at their places. P_1 starts from the
embeddings of the first n tokens of "a photo of a", by the model's own tokenizer, where the weights come from a trained
model and the phrase has as many; all else starts from N(0, 0.02), and all A_k of k > 1 from the same numbers, as the
authors' copies do. Nothing but this is to be trained (`training.trains = "added"`).

How we differ: the authors' texts are "a photo of a CLASS.", whose first n words P_1 *replaces*, so that the tower reads
"X X of a CLASS.". Captions have no such words to give, so P_1 is *inserted* behind the start token and all words stay;
it takes n places of the context. `replace = true` does as the authors do: the first n tokens of every text give way,
and a text that has no more than these is refused. Several class tokens are allowed: prompts of texts come behind them.
Regions (`region_branch.py`) pass the last blocks without prompts. The authors train with SGD at 0.0035; here it is
AdamW at its rate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from equipoise.data.tokenizer import CaptionTokenizer
from equipoise.encoders.encoder import Encoder, TakesPrompts
from equipoise.encoders.text import TextTransformer
from equipoise.settings.bounds import bounded
from equipoise.types import UserError

STD = 0.02
WORDS = "a photo of a"


class Prompts(nn.Module):
    """Learned tokens of both towers, which it hands to their encoders."""

    added = True  # `training.trains = "added"` trains it alone

    @dataclass(frozen=True)
    class Config:
        length: int = bounded(0, 0, 2**16)  # n; 0: no prompts. The paper has 2
        depth: int = bounded(9, 0, 1000)  # blocks that are given prompts, the first of them at its input
        replace: bool = False  # P_1 replaces the first n words of every text, as the authors have it

        def __post_init__(self) -> None:
            if self.length < 0:
                raise UserError(f"length must be at least 0, not {self.length}; 0 is no prompts")
            if self.depth < 1:
                raise UserError(f"depth must be at least 1, not {self.depth}: prompts at the input alone")

        @property
        def room(self) -> int:
            """The places of the context that prompts take from captions."""
            return 0 if self.replace else self.length

        @property
        def cites(self) -> tuple[str, ...]:
            return ("khattak2023maple",) if self.length else ()

        def build(self, image: Encoder, text: Encoder) -> Prompts | None:
            if not self.length:
                return None
            return Prompts(self, self._taken_by("image", image), self._taken_by("text", text))

        def _taken_by(self, tower: str, encoder: Encoder) -> TakesPrompts:
            if not isinstance(encoder, TakesPrompts):
                raise UserError(
                    f"{tower} is a {type(encoder).__name__}, which takes no prompts; a ViT and a text transformer of "
                    "ours do, so choose these, or set prompts.length to 0"
                )
            if self.depth > len(encoder.blocks()):
                raise UserError(
                    f"prompts.depth is {self.depth}, but the {tower} tower has {len(encoder.blocks())} blocks; "
                    "set it to no more than that"
                )
            return encoder

    def __init__(self, config: Config, image: TakesPrompts, text: TakesPrompts):
        super().__init__()
        self.config = config
        self.tokens = nn.ParameterList(STD * torch.randn(config.length, text.width) for _ in range(config.depth))
        self.maps = nn.ModuleList(nn.Linear(text.width, image.width) for _ in range(config.depth))
        for later in self.maps[2:]:
            later.load_state_dict(self.maps[1].state_dict())
        image.prompts, text.prompts = self.of_images, self.of_texts
        if isinstance(text, TextTransformer):
            text.prompts_replace_words = config.replace

    def of_texts(self) -> Sequence[Tensor]:
        return list(self.tokens)

    def of_images(self) -> Sequence[Tensor]:
        return [coupled(tokens) for coupled, tokens in zip(self.maps, self.tokens, strict=True)]

    @torch.no_grad()
    def start_from(self, words: nn.Embedding, tokenizer: CaptionTokenizer) -> None:
        """Initialise P_1 with the embeddings of "a photo of a", where that has enough tokens."""
        ids, mask = tokenizer(WORDS)
        inside = ids[0, mask[0]][1:-1]  # without start and end
        if len(inside) >= self.config.length:
            self.tokens[0].copy_(words.weight[inside[: self.config.length].to(words.weight.device)])
