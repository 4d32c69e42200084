"""The layers of a fine-tuning run's settings.

    the model's own       image, text, readout, space, preprocess, tokens, ...: what it is
    the data's recipe     data, shuffle, keep, augment, evaluation, and nothing else of it
    the method            `recipes/finetune/NAME.toml`: objective, training, ...
    the model's captions  of a CoCa: its objective in place of `clip`, or as that which mixups stand beside
    the command line      --set

A later layer overrides an earlier one, key by key.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping, Sequence
from typing import Any

from equipoise.finetuning.methods import METHODS
from equipoise.settings.layers import Layer
from equipoise.settings.overrides import command_line
from equipoise.settings.recipe import BUILT_IN, METHOD_FOLDER, PathLike, recipe_layers
from equipoise.types import UserError

MODEL_TABLES = (
    "tokens",
    "preprocess",
    "image",
    "text",
    "regions",
    "readout",
    "space",
    "temperature",
    "prompts",
    "shift",
)
DATA_TABLES = ("data", "shuffle", "keep", "augment", "evaluation")
FOLDER = BUILT_IN / METHOD_FOLDER
CAPTIONS = "coca"  # the objective that has a decoder of captions
MIXUPS = ("m2mix", "m3mix", "un-mix")  # methods whose objective stands beside another
OTHERS = ("i-mix", "few-shot", "zero-shot", "embedding-shift")  # those that no caption fits, or that train nothing


def finetuning_layers(
    start: str,
    settings: Mapping[str, Any],
    data: PathLike | Sequence[Layer],
    method: str,
    overrides: Sequence[str],
) -> tuple[Layer, ...]:
    """Layers of a run that starts from the model at `start`, whose resolved settings are `settings`, on the data of a
    recipe, which may be given as layers."""
    if method not in METHODS:
        near = difflib.get_close_matches(method, METHODS, n=1)
        ending = f"did you mean {near[0]}?" if near else f"choose one of {', '.join(METHODS)}"
        raise UserError(f'there is no method "{method}" to fine-tune with; {ending}')
    origin = {"finetuning": {"start": start, "method": method}}
    return (
        _only(MODEL_TABLES, Layer(start, settings, {})),
        *(
            _only(DATA_TABLES, layer)
            for layer in (recipe_layers(data) if isinstance(data, str | os.PathLike) else data)
        ),
        *recipe_layers(FOLDER / f"{method}.toml"),
        *_caption_layer(start, settings, method),
        Layer("equipoise finetune", origin, {}),
        command_line(overrides, source="--set"),
    )


def _caption_layer(start: str, settings: Mapping[str, Any], method: str) -> list[Layer]:
    """The objective of a start model that writes captions, which it would else forget; none for other models."""
    own = settings.get("objective", {})
    found = own if own.get("name") == CAPTIONS else own.get("of", {})
    if method in OTHERS or not isinstance(found, Mapping) or found.get("name") != CAPTIONS:
        return []
    return [Layer(start, {"objective": {"of": found} if method in MIXUPS else found}, {})]


def _only(sections: Sequence[str], layer: Layer) -> Layer:
    return layer.narrowed({name: value for name, value in layer.values.items() if name in sections})
