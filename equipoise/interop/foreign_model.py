"""A model of another library: its settings, its tokenizer, and its weights under that library's keys."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from equipoise.data.tokenizer import CaptionTokenizer
from equipoise.interop.key_mapping import KeyMap, StateDict, join_problems, to_ours, to_theirs
from equipoise.interop.multi_clip import MultiCLIP
from equipoise.interop.plain_clip import PlainCLIP
from equipoise.interop.plain_coca import PlainCoCa
from equipoise.interop.plain_siglip import PlainSigLIP
from equipoise.models.folder import state_dict_differences
from equipoise.models.model import Model
from equipoise.types import UserError


@dataclass(frozen=True)
class ImportRequest:
    """Options of an import, beside the path."""

    model: str = ""  # open_clip's name for the model, or a .json file of its settings
    tokenizer: str = ""  # a tokenizer's file or folder
    preprocess: str = ""  # a .json file, as open_clip's preprocess_cfg


@dataclass(frozen=True)
class ForeignModel:
    """A model of another library, read and checked."""

    where: str
    plain: PlainCLIP | PlainSigLIP | PlainCoCa | MultiCLIP
    tokenizer: CaptionTokenizer
    key_map: KeyMap
    state: StateDict  # under their keys

    def fill(self, model: Model) -> None:
        """Load the weights into a model of ours; where they do not fit, load nothing and raise UserError."""
        expected = to_theirs(model.state_dict(), self.key_map)
        if problems := state_dict_differences(expected, self.state):
            raise UserError(f"{self.where} does not fit its settings, nothing was loaded: {join_problems(problems)}")
        whole = [
            key for key in expected if expected[key].is_floating_point() and not self.state[key].is_floating_point()
        ]
        if whole:
            kinds = ", ".join(f"{key} ({str(self.state[key].dtype).removeprefix('torch.')})" for key in whole)
            raise UserError(f"{self.where} holds weights that are no real numbers, nothing was loaded: {kinds}")
        broken = [key for key, tensor in self.state.items() if not torch.isfinite(tensor).all()]
        if broken:
            raise UserError(f"{self.where} holds numbers that are not finite, nothing was loaded: {', '.join(broken)}")
        model.load_state_dict(to_ours(self.state, self.key_map), assign=True)
