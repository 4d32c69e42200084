"""`equipoise init`: a recipe for files of one's own, with sizes for them and for this machine, to read and change."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from equipoise.config import Run, load_layers
from equipoise.data.bad_records import BadRecord
from equipoise.data.source import Source, can_crop
from equipoise.io.atomic import write_text
from equipoise.io.lines import one_line
from equipoise.settings.layers import Layer
from equipoise.settings.overrides import command_line
from equipoise.settings.recipe import recipe_layers
from equipoise.settings.toml import literal
from equipoise.training.device import torch_device
from equipoise.types import UserError
from equipoise.workflows.own_files import RECIPE, data_layer, fitted, name_of
from equipoise.workflows.sizes import count_samples
from equipoise.workflows.subject import names_files

LOOKED_AT = 50  # pictures
SHOWN = {
    "data": ("name", "train", "validation", "test"),
    "tokens": ("vocabulary", "context"),
    "preprocess": ("size",),
    "image": ("name", "patch"),
    "text": ("name",),
    "space": ("dim",),
    "training": (
        "steps", "batch_size", "learning_rate", "warmup_steps", "evaluate_every", "checkpoint_every", "log_every",
        "best", "workers",
    ),
    "evaluation": ("captions",),
}  # fmt: skip
NOTES = {
    "data.train": "relative to where you start the command",
    "data.validation": "empty: a share of the training records, chosen by their keys",
    "data.test": "empty: the validation records",
    "data.validation_share": "of the records, held out for validation",
    "data.path": "the column of the pictures' files",
    "data.captions": "the column of the captions, or a list of columns",
    "data.images": "the folder that these paths start from",
    "data.separator": "what divides the columns",
    "preprocess.size": "pixels on each side",
    "image.name": "`vit-micro`, `vit-mini`, `vit-s16`, `vit-b32`, ...: docs/models.md",
    "objective.target.name": "pictures of one class match each other's captions, which are the same",
    "training.batch_size": "more needs more memory; training.micro_batch divides it",
    "training.workers": "processes that read pictures; 0: a thread",
    "evaluation.captions": "0: all of each picture",
}


@dataclass(frozen=True)
class Size:
    """A model and how it is trained, for a machine and so many samples."""

    image: str
    text: str
    pixels: int
    patch: int
    dim: int
    batch: int
    steps: int  # at most
    rate: float


SMALL = Size("vit-micro", "causal-micro", 64, 16, 128, 256, 2000, 1e-3)
BY_EPOCHS = ("training", "epochs")  # for which its steps are written
GPU = {  # by the least number of samples
    1_000_000: Size("vit-b32", "causal-b", 224, 32, 512, 1024, 60_000, 5e-4),
    100_000: Size("vit-s16", "causal-s", 224, 16, 384, 512, 20_000, 5e-4),
    0: Size("vit-mini", "causal-micro", 64, 8, 256, 512, 5000, 1e-3),
}


def init_recipe(data: str, overrides: Sequence[str] = (), out: Path | None = None) -> Path:
    """Write a recipe that trains on the files as it stands; returns its path."""
    if not names_files(data):
        raise UserError(f"{data} is a recipe, or nothing that is there; give the files to write a recipe for")
    out = out or Path(f"{name_of(data)}.toml")
    if out.exists():
        raise UserError(f"{out} is there already; choose another file with --out, or move it away")
    line = command_line(overrides, source="--set")
    base = (*recipe_layers(RECIPE), data_layer(data, line, "divided"), Layer(data, {"name": name_of(data)}, {}))
    run = load_layers(*base, line).run
    device = torch_device("auto")
    chosen = choose_size(count_samples(run), device, _shorter_side(run.data.build("train")))
    sized = Layer("this machine", _settings(chosen, device), {})
    loaded = fitted((*base, sized, line), follow=True)
    named = {**line.values, "data": {**base[-2].values["data"], **line.values.get("data", {})}}
    write_text(out, "\n".join([*_header(loaded.run, data, device, out), *_sections(loaded.table, named)]))
    return out


def choose_size(samples: int, device: torch.device, pixels: int) -> Size:
    """A model for so many samples on a device, of pictures whose shorter side has so many pixels."""
    found = next(size for least, size in GPU.items() if samples >= least) if device.type == "cuda" else SMALL
    small = pixels < 0.75 * found.pixels  # larger pictures would hold nothing more
    return Size(**{**vars(found), "pixels": 32, "patch": 8}) if small and found.pixels == 64 else found


def _settings(size: Size, device: torch.device) -> dict[str, Any]:
    cores = os.cpu_count() or 1
    return {
        "preprocess": {"size": size.pixels},
        "image": {"name": size.image, "patch": size.patch},
        "text": {"name": size.text},
        "space": {"dim": size.dim},
        "training": {
            "batch_size": size.batch,
            "steps": size.steps,
            "learning_rate": size.rate,
            "workers": min(8, cores - 1) if device.type == "cuda" else 0,
        },
    }


def _shorter_side(source: Source) -> int:
    """The median of the shorter side of some pictures, in pixels."""
    assert can_crop(source)
    sides = []
    for index in np.unique(np.linspace(0, len(source) - 1, LOOKED_AT).astype(int)).tolist():
        try:
            image = source.open(index).image
        except BadRecord:
            continue
        sides.append(min(image.width, image.height))
    return int(np.median(sides)) if sides else SMALL.pixels


def _sections(table: Mapping[str, Any], named: Mapping[str, Any]) -> list[str]:
    """The tables of the recipe: what is worth changing, and what the user `named`."""
    lines = [f"{key} = {literal(value)}" for key, value in named.items() if key != "name" and not _is_table(value)]
    keys: dict[str, list[str]] = {name: list(shown) for name, shown in SHOWN.items()}
    for name, values in named.items():
        if _is_table(values):
            keys[name] = [*keys.get(name, ()), *(key for key in values if (name, key) != BY_EPOCHS)]
    target = table["objective"].get("target")
    if target and target["name"] == "labels":
        keys["objective.target"] = ["name"]
        table = {**table, "objective.target": target}
    sections = [_section(name, {key: table[name][key] for key in dict.fromkeys(own)}) for name, own in keys.items()]
    return [*lines, *([""] if lines else []), *sections]


def _is_table(value: Any) -> bool:
    return isinstance(value, Mapping)


def _header(run: Run, data: str, device: torch.device, out: Path) -> list[str]:
    place = "a GPU" if device.type == "cuda" else "a CPU"
    data, path = one_line(data), one_line(str(out))
    return [
        f"# CLIP from scratch on {data}, with sizes for these files and {place}. All other settings are those of the",
        f"# recipe `{RECIPE}`: `equipoise show {path}` prints them all, docs/recipes.md says what each does.",
        "#",
        f"# command    equipoise train {path}",
        "# Few pairs teach little from nothing: `equipoise finetune MODEL DATA` starts from a model that is there.",
        f"extends = {literal(RECIPE)}",
        f"name = {literal(run.name)}",
        "",
    ]


def _section(name: str, values: Mapping[str, Any]) -> str:
    lines = []
    for key, value in values.items():
        note = NOTES.get(f"{name}.{key}", "")
        lines.append(f"{key} = {literal(value)}" + (f"  # {note}" if note else ""))
    return "\n".join([f"[{name}]", *lines, ""])
