"""The settings of a run that fine-tunes: whose word counts where.

    the model's own       image, text, readout, space, preprocess, tokens, ...: what it is
    the data's recipe     data, shuffle, keep, augment, evaluation, and nothing else of it
    the method            `recipes/finetune/NAME.toml`: objective, training, ...
    the command line      --set

A later one wins over an earlier one, key by key.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Any

from equipoise.finetuning.methods import METHODS
from equipoise.settings.layers import Layer
from equipoise.settings.recipe import BUILT_IN, METHOD_FOLDER, PathLike, command_line, recipe_layers
from equipoise.types import UserError

MODELS = ("tokens", "preprocess", "image", "text", "regions", "readout", "space", "temperature", "prompts", "shift")
DATAS = ("data", "shuffle", "keep", "augment", "evaluation")
FOLDER = BUILT_IN / METHOD_FOLDER


def finetuning_layers(
    start: str, settings: Mapping[str, Any], data: PathLike, method: str, overrides: Sequence[str]
) -> tuple[Layer, ...]:
    """`settings` are those of the model at `start`, resolved."""
    if method not in METHODS:
        near = difflib.get_close_matches(method, METHODS, n=1)
        ending = f"did you mean {near[0]}?" if near else f"choose one of {', '.join(METHODS)}"
        raise UserError(f'there is no method "{method}" to fine-tune with; {ending}')
    said = {"finetuning": {"start": start, "method": method}}
    return (
        _only(MODELS, Layer(start, settings, {})),
        *(_only(DATAS, layer) for layer in recipe_layers(data)),
        *recipe_layers(FOLDER / f"{method}.toml"),
        Layer("equipoise finetune", said, {}),
        command_line(overrides, source="--set"),
    )


def _only(sections: Sequence[str], layer: Layer) -> Layer:
    return layer.narrowed({name: value for name, value in layer.values.items() if name in sections})
