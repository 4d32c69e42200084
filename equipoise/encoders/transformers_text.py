"""Text models of transformers and sentence-transformers, by folder or name."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from equipoise.encoders.encoder import TextEncoder, mean_of_real, require_single
from equipoise.encoders.pretrained import Pretrained, import_transformers, library_config, load_all, trained_weights
from equipoise.io.json_files import read_json, read_json_table
from equipoise.types import Features, UserError

POOLINGS = ("mean", "first")
TOGETHER, ON_GPU = 32, 256  # texts of about one length that a processor encodes at once, or a GPU
SENTENCE_MODULES = ("Transformer", "Pooling", "Normalize")  # of a sentence-transformers folder; the last is a space's


class TransformersText(Pretrained, TextEncoder):
    @dataclass(frozen=True)
    class Config:
        model: str = ""  # a folder with config.json, as transformers and sentence-transformers write, or a hub name
        pretrained: bool = False  # weights from that folder, or from the hub
        pooling: str = ""  # mean or first token; by default what a sentence-transformers folder says, else mean
        frozen: bool = False  # whether its weights stay as they are

        def __post_init__(self) -> None:
            if not self.model:
                raise UserError("model is empty; give a folder that holds config.json, or a name of the hub")
            if self.pooling not in ("", *POOLINGS):
                raise UserError(f"pooling must be one of {', '.join(POOLINGS)}, not {self.pooling!r}")

        def build(self, vocabulary: int, context: int, classes: int = 1) -> TransformersText:
            require_single("transformers", classes)
            return TransformersText(self, vocabulary, context)

    def __init__(self, config: Config, vocabulary: int, context: int):
        super().__init__()
        self.config = config
        self.pooling = config.pooling or sentence_pooling(Path(config.model))
        settings = library_config(config.model, config.pretrained)
        _require_room(config.model, "tokens", vocabulary, settings.vocab_size)
        _require_room(config.model, "positions", context, getattr(settings, "max_position_embeddings", context))
        model = import_transformers().AutoModel.from_config(settings)
        if getattr(model, "pooler", None) is not None:
            model.pooler = None  # a head we do not use: its weights would never get a gradient
        self._adopt(model, config.frozen)
        self.width = settings.hidden_size

    def load_pretrained(self) -> None:
        if self.config.pretrained:
            load_all(self.model, trained_weights(self.config.model), self.config.model)

    def forward(self, ids: Tensor, mask: Tensor, classes_only: bool = False) -> Features:
        together = ON_GPU if ids.is_cuda else TOGETHER
        if classes_only and not torch.is_grad_enabled() and len(ids) > together:
            return self._by_length(ids, mask, together)
        x = self.model(input_ids=ids, attention_mask=mask.long()).last_hidden_state
        if self.pooling == "first":
            return Features(x[:, :1], x[:, 1:], mask[:, 1:])
        return Features(mean_of_real(x, mask), x, mask)

    def _by_length(self, ids: Tensor, mask: Tensor, together: int) -> Features:
        """Class features alone, of texts of about one length at a time: padding takes as long as words, and a batch is
        padded to its longest text."""
        lengths = mask.sum(1)
        parts = lengths.argsort(stable=True).split(together)
        widths = [int(lengths[rows].max()) for rows in parts]
        found = [self(ids[rows, :width], mask[rows, :width]).classes for rows, width in zip(parts, widths, strict=True)]
        return Features(torch.cat(found)[torch.cat(parts).argsort()])


def sentence_pooling(folder: Path) -> str:
    """Pooling of a sentence-transformers folder, mean or first; the mean where it names none."""
    modules, pooling = folder / "modules.json", folder / "1_Pooling" / "config.json"
    if not modules.is_file():
        return "mean"
    modes = read_json_table(pooling)
    try:
        kinds = [module["type"].rpartition(".")[2] for module in read_json(modules)]
    except (KeyError, TypeError, AttributeError):
        raise UserError(f"cannot read {modules}: it must be a list of tables, each with a type") from None
    modes_on = {name.removeprefix("pooling_mode_") for name, on in modes.items() if on is True and "_mode_" in name}
    known = {"mean_tokens": "mean", "cls_token": "first"}
    if not set(kinds) <= set(SENTENCE_MODULES) or len(modes_on & set(known)) != 1 or not modes_on <= set(known):
        raise UserError(f"{folder}: only mean and first-token pooling without further layers can be read, not {modes}")
    return known[modes_on.pop()]


def _require_room(name: str, what: str, needed: int, available: int) -> None:
    if needed > available:
        raise UserError(
            f"{name} has {available} {what}, but {needed} are wanted; use its own tokenizer and a fit context"
        )
