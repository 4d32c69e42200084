"""A model as another library keeps it: what is known of it, and its weights under that library's names."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from equipoise.data.tokenizer import CaptionTokenizer
from equipoise.interop.key_mapping import Names, State, listed, to_ours, to_theirs
from equipoise.interop.plain_clip import PlainCLIP
from equipoise.models.folder import differences
from equipoise.models.model import Model
from equipoise.types import UserError


@dataclass(frozen=True)
class ImportRequest:
    """What a person says beside the path."""

    model: str = ""  # open_clip's name for the model, or a .json file of its settings
    tokenizer: str = ""  # a tokenizer's file or folder
    preprocess: str = ""  # a .json file, as open_clip's preprocess_cfg


@dataclass(frozen=True)
class Foreign:
    """A model as another library keeps it."""

    where: str
    plain: PlainCLIP
    tokens: CaptionTokenizer
    names: Names
    state: State  # under their names

    def fill(self, model: Model) -> None:
        """Load the weights into a model of ours; where they do not fit it, say all that differs and load nothing."""
        wanted = to_theirs(model.state_dict(), self.names)
        if problems := differences(wanted, self.state):
            raise UserError(f"{self.where} does not fit its settings, nothing was loaded: {listed(problems)}")
        broken = [name for name, tensor in self.state.items() if not torch.isfinite(tensor).all()]
        if broken:
            raise UserError(f"{self.where} holds numbers that are not finite, nothing was loaded: {', '.join(broken)}")
        model.load_state_dict(to_ours(self.state, self.names), assign=True)
