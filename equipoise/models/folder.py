"""A model is a folder anyone can read:

    config.toml          every setting of the run, resolved
    model.safetensors    the weights
    tokenizer.json ...   the tokenizer's files
    preprocess.json      how images are prepared
    metrics.json         what was measured
    README.md            the card: what it is, how it was made, how to load it

No pickles. Files are written under a temporary name and renamed, so a folder is complete or not there.
A run keeps such folders as it goes: `checkpoints/best`, and `checkpoints/step-00001200` with the state of training.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from equipoise.data.preprocess import Preprocess
from equipoise.data.tokenizer import CaptionTokenizer, NoTokenizer
from equipoise.io.atomic import replacing, write_text
from equipoise.models.model import Model, count_parameters
from equipoise.types import UserError

CONFIG, WEIGHTS, PREPROCESS, METRICS, CARD, TOKENISER = (
    "config.toml",
    "model.safetensors",
    "preprocess.json",
    "metrics.json",
    "README.md",
    "tokenizer.json",
)
OTHERS = ("open_clip_config.json", "config.json")  # what open_clip and transformers keep beside their weights
SAID = 6  # differences named in an error
CHECKPOINTS, BEST, STEP = "checkpoints", "best", "step-"


def save_model(
    model: Model, folder: Path, config: str, metrics: Mapping[str, float], weights: Mapping[str, Tensor] | None = None
) -> None:
    """Write a whole model folder in one move; `weights` stand in for the model's own (an average, say)."""
    with replacing(folder) as temporary:
        temporary.mkdir()
        write_model(model, temporary, config, metrics, weights)


def write_model(
    model: Model, folder: Path, config: str, metrics: Mapping[str, float], weights: Mapping[str, Tensor] | None = None
) -> None:
    """Write the model's files into a folder that may hold others; the weights last, for they make it a model."""
    write_text(folder / CONFIG, config)
    model.tokenizer.save(folder)
    write_text(folder / PREPROCESS, json.dumps(model.preprocess.to_json(), indent=2) + "\n")
    write_text(folder / METRICS, json.dumps(dict(metrics), indent=2) + "\n")
    write_text(folder / CARD, card(model, config, metrics))
    write_tensors(folder / WEIGHTS, model.state_dict() if weights is None else weights)


def write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write tensors into a model folder that has its settings already."""
    with replacing(path) as temporary:
        try:
            save_file({name: t.detach().cpu().contiguous() for name, t in tensors.items()}, temporary)
        except SafetensorError as error:  # how safetensors reports a full disk
            raise OSError(str(error)) from error
        shutil.copymode(path.with_name(CONFIG), temporary)  # safetensors keeps its files to their owner


def read_tensors(path: Path) -> dict[str, Tensor]:
    try:
        return load_file(path)
    except (OSError, SafetensorError) as error:
        raise UserError(f"cannot read weights from {path}: {error}") from error


def model_folder(path: Path) -> Path:
    """The folder that holds the model: `path` itself, or the best (else the newest) checkpoint of an unfinished run."""
    others = next((name for name in OTHERS if (path / name).is_file() and not (path / CONFIG).is_file()), "")
    for candidate in (path, path / CHECKPOINTS / BEST, *reversed(step_folders(path))):
        if (candidate / WEIGHTS).is_file() and not others:
            return candidate
    hint = "" if path.is_dir() else " (there is no such folder)"
    if others:
        hint = f", but {others} of another library: `equipoise import {path} --out FOLDER` makes one of it"
    raise UserError(f"no model in {path}{hint}: a model folder holds {WEIGHTS} and {CONFIG}")


def step_folders(run: Path) -> list[Path]:
    """The checkpoints of a run by step, oldest first; one that has its name is complete."""
    found = [path for path in (run / CHECKPOINTS).glob(f"{STEP}*") if path.name.removeprefix(STEP).isdecimal()]
    return sorted(found, key=step_number)


def step_number(checkpoint: Path) -> int:
    return int(checkpoint.name.removeprefix(STEP))


def read_parts(folder: Path) -> tuple[CaptionTokenizer, Preprocess]:
    path = folder / PREPROCESS
    try:
        preprocess = Preprocess.from_json(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"cannot read {path}: {error}") from error
    tokens = CaptionTokenizer.load(folder) if (folder / TOKENISER).is_file() else NoTokenizer()
    return tokens, preprocess


def fill_weights(model: nn.Module, state: Mapping[str, Tensor], path: Path) -> None:
    """Load weights that were read from `path` into a model of exactly the same shape; otherwise say what differs and
    load nothing."""
    if problems := differences(model.state_dict(), state):
        more = f"; and {len(problems) - SAID} more" if len(problems) > SAID else ""
        settings = f" ({path.with_name(CONFIG)} holds its settings)" if path.with_name(CONFIG).is_file() else ""
        raise UserError(f"{path}{settings} does not fit this model: {'; '.join(problems[:SAID])}{more}")
    model.load_state_dict(state)


def differences(wanted: Mapping[str, Tensor], found: Mapping[str, Tensor]) -> list[str]:
    """What keeps `found` from being loaded as `wanted`, one short phrase each."""
    missing = [f"{name} is missing" for name in wanted if name not in found]
    extra = [f"{name} is not part of the model" for name in found if name not in wanted]
    misshaped = [
        f"{name} is {_shape(found[name])}, not {_shape(wanted[name])}"
        for name in wanted
        if name in found and found[name].shape != wanted[name].shape
    ]
    return misshaped + missing + extra


def card(model: Model, config: str, metrics: Mapping[str, float]) -> str:
    numbers = "\n".join(f"| {name} | {value:.4g} |" for name, value in metrics.items()) or "| (not evaluated) | |"
    return f"""# An Equipoise model

A contrastive image-text model of {count_parameters(model):,} parameters in a {model.space.dim}-dimensional
{type(model.space).__name__} space; temperature exp(t) = {float(model.log_scale.detach().exp()):.4g}.

```python
import equipoise as eq

model = eq.load("this folder")
images = model.encode_image(["a.jpg"])
texts = model.encode_text(["a red fish"])
model.similarity(images, texts)
```

| metric | value |
|---|---|
{numbers}

Made by this run:

```toml
{config.strip()}
```
"""


def _shape(tensor: Tensor) -> str:
    return "×".join(map(str, tensor.shape)) or "a scalar"
