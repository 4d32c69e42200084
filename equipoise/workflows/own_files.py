"""Files in place of a recipe: the settings that read them, and sizes that follow them.

whole      all of it is looked at: `eval`, `embed`, `data check`
judged     all of it is training data, nothing is held out: `audit`, `clean`
divided    a share is held out for validation, chosen by the records' keys: `train`, `finetune`, `shift`
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from equipoise.config import Loaded, load_layers
from equipoise.data.files.file_source import FileSettings
from equipoise.data.files.infer_format import Inferred, infer
from equipoise.settings.layers import Layer
from equipoise.settings.overrides import command_line
from equipoise.settings.recipe import recipe_layers
from equipoise.types import Notice, UserError
from equipoise.workflows.sizes import sizes_layer, validation_share

RECIPE = "files"  # that files are trained by unless another is named
SPLITS: dict[str, tuple[str, ...]] = {"whole": ("test",), "judged": ("train", "validation"), "divided": ("train",)}


def own_settings(data: str, overrides: Sequence[str] = (), *, divided: bool = False) -> FileSettings:
    """How files are read, as the split `test`, with `--set data.KEY=VALUE`: all of them, or `divided` by the column of
    splits that a table has."""
    line = command_line(overrides, source="--set")
    if strange := next((name for name in line.values if name != "data"), ""):
        raise UserError(
            f"--set belongs to recipes, and {strange} has nothing to do with how files are read; set data.KEY alone, "
            "or give a recipe"
        )
    layer = data_layer(data, line, "whole", captions=False)
    if divided and not has_splits(layer.values["data"]) and not has_splits(line.values.get("data")):
        raise UserError(
            f"--split belongs to recipes and tables with a column of splits, and {data} has none; leave it out"
        )
    if not divided:
        layer.values["data"].pop("split", None)
    settings = load_layers(layer, line).run.data
    assert isinstance(settings, FileSettings)
    return settings


def has_splits(table: Any) -> bool:
    """Whether a table [data] names a column of splits."""
    return isinstance(table, Mapping) and bool(table.get("split"))


def data_layer(data: str, line: Layer, use: str, *, captions: bool = True) -> Layer:
    """The table [data] of files as a layer of settings; says what was guessed. With `captions`, pictures without any
    raise UserError."""
    given = line.values.get("data", {})
    found = infer(data, given if isinstance(given, Mapping) else {})
    if found.told:
        warnings.warn(
            f"{found.files}: {found.told}; --set data.path=..., data.captions=... change it", Notice, stacklevel=2
        )
    if captions and found.table["name"] == "pictures":
        _require_captions(found)
    table: dict[str, Any] = dict.fromkeys(("train", "validation", "test"), "")
    table |= {**dict.fromkeys(SPLITS[use], found.files), **found.table}
    if use == "divided":
        table |= _held_out(found, given)
    return Layer(data, {"data": table}, {}, trusted=True)


def own_run(
    data: str,
    recipe: str,
    overrides: Sequence[str],
    use: str,
    *,
    sized: bool = False,
    trains: bool = True,
) -> Loaded:
    """The run of a recipe with files as its data; `sized`: with all sizes following the data, and named after it. The
    batch of a run that `trains` is never larger than the data."""
    line = command_line(overrides, source="--set")
    own = data_layer(data, line, use)
    named = Layer(data, {"name": name_of(data)} if sized else {}, {})
    layers = (*recipe_layers(recipe), own, named, line)
    return fitted(layers, follow=sized) if trains else load_layers(*layers)


def recipe_run(layers: tuple[Layer, ...]) -> Loaded:
    """The run of a recipe, the command line last, as the recipe says; with `training.epochs`, steps fit the data."""
    loaded = load_layers(*layers)
    return fitted(layers) if loaded.run.training.epochs else loaded


def fitted(layers: tuple[Layer, ...], *, follow: bool = False) -> Loaded:
    """A run of layers of settings, the command line last, with sizes that fit the data."""
    if follow:
        layers = (*layers[:-1], _matching_classes(layers), layers[-1])
    sizes, sentence = sizes_layer(layers, follow=follow)
    if sizes.values["training"]:
        warnings.warn(sentence, Notice, stacklevel=2)
    return load_layers(*layers, sizes)


def _matching_classes(layers: tuple[Layer, ...]) -> Layer:
    """Pictures of one class match each other's captions, which are the same; plain CLIP would push them apart."""
    loaded = load_layers(*layers)
    objective = loaded.table["objective"]
    is_plain = objective["name"] == "clip" and objective["target"]["name"] == "one_hot"
    if not is_plain or not getattr(loaded.run.data, "names_classes", False):
        return Layer("classes", {}, {})
    return Layer("classes", {"objective": {"name": "clip", "target": {"name": "labels"}}}, {})


def name_of(data: str) -> str:
    """A run's name, after its data."""
    return re.sub(r"[^\w-]+", "-", Path(data).stem or Path(data).resolve().name).strip("-") or RECIPE


def _held_out(found: Inferred, given: Any) -> dict[str, Any]:
    """The share of the records that is held out, where no files are named for validation."""
    if not isinstance(given, Mapping) or "validation_share" in given or "validation" in given:
        return {}
    root = {"root": given["root"]} if "root" in given else {}
    settings = load_layers(Layer(found.files, {"data": {**found.table, **given, **root}}, {}, trusted=True)).run.data
    assert isinstance(settings, FileSettings)
    records = len(settings.records((found.files,)))
    return {"validation_share": validation_share(records, settings.validation_share)}


def _require_captions(found: Inferred) -> None:
    records = found.settings.records((found.files,))
    if len(records) and not records.pair(0).captions:
        raise UserError(
            f"{found.files}: these pictures have no captions; put a .txt beside each, give a table with captions, or a "
            "folder of pictures for each class"
        )
