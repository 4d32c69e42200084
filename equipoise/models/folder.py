"""The model folder, which anyone can read:

    config.toml          every setting of the run, resolved
    model.safetensors    the weights
    tokenizer.json ...   the tokenizer's files
    preprocess.json      how images are prepared
    metrics.json         what was measured
    README.md            the card: what it is, how it was made, how to load it
    digests.json         the SHA-256 of the files that make the model, compared when it is loaded (`io/digests.py`)

No pickles. Files are written under a temporary name and renamed, so a folder is complete or not there.
A run keeps such folders as it goes: `checkpoints/best`, and `checkpoints/step-00001200` with the state of training.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from equipoise.data.preprocess import Preprocess
from equipoise.data.tokenizer import CaptionTokenizer, NoTokenizer
from equipoise.io.atomic import replacing, write_text
from equipoise.io.digests import require_intact, write_digests
from equipoise.io.json_files import read_json_table
from equipoise.models.model import Model, count_parameters
from equipoise.ops.finite import first_not_finite
from equipoise.settings.nearby import meant_path
from equipoise.settings.one_line import one_line
from equipoise.types import UserError

CONFIG, WEIGHTS, PREPROCESS, METRICS, CARD, TOKENIZER = (
    "config.toml",
    "model.safetensors",
    "preprocess.json",
    "metrics.json",
    "README.md",
    "tokenizer.json",
)
MODEL_FILES = (CONFIG, TOKENIZER, PREPROCESS, WEIGHTS)  # those that make the model
FOREIGN_CONFIGS = ("open_clip_config.json", "config.json")  # of open_clip and of transformers
LISTED = 6  # differences named in an error
CHECKPOINTS, BEST, STEP = "checkpoints", "best", "step-"


def save_model(
    model: Model, folder: Path, config: str, metrics: Mapping[str, float], weights: Mapping[str, Tensor] | None = None
) -> None:
    """Write a model folder, complete or not at all; `weights` replace the model's own (an EMA, say)."""
    with replacing(folder) as temporary:
        temporary.mkdir()
        write_model(model, temporary, config, metrics, weights)


def write_model(
    model: Model, folder: Path, config: str, metrics: Mapping[str, float], weights: Mapping[str, Tensor] | None = None
) -> None:
    """Write the model's files and their digests into a folder that may hold other files."""
    write_model_files(model, folder, config, metrics, weights)
    write_digests(folder, MODEL_FILES, _step_of(metrics))


def write_model_files(
    model: Model, folder: Path, config: str, metrics: Mapping[str, float], weights: Mapping[str, Tensor] | None = None
) -> None:
    """Write the model's files, the weights last, for they make it a model; their digests are left to the caller."""
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


def read_weights(folder: Path) -> dict[str, Tensor]:
    """The weights of a model folder; raises UserError if they are not those that were saved, or not finite."""
    require_intact(folder, [WEIGHTS])
    state = read_tensors(folder / WEIGHTS)
    if name := first_not_finite(state):
        raise UserError(
            f"{folder / WEIGHTS}: {name} holds numbers that are not finite (NaN or infinite), so the model is of no "
            "use; take a checkpoint from before it diverged"
        )
    return state


def model_folder(path: Path) -> Path:
    """The folder that holds the model: `path` itself, or the best (else the newest) checkpoint of an unfinished run."""
    foreign = next((name for name in FOREIGN_CONFIGS if (path / name).is_file() and not (path / CONFIG).is_file()), "")
    for candidate in (path, path / CHECKPOINTS / BEST, *reversed(step_folders(path))):
        if (candidate / WEIGHTS).is_file() and not foreign:
            return candidate
    hint = "" if path.is_dir() else meant_path(path) or " (there is no such folder)"
    if foreign:
        hint = f", but {foreign} of another library: `equipoise import {path} --out FOLDER` makes one of it"
    raise UserError(f"no model in {path}{hint}: a model folder holds {WEIGHTS} and {CONFIG}")


def step_folders(run: Path) -> list[Path]:
    """Checkpoint folders of a run, oldest first. A folder gets its name when it is complete."""
    folders = [path for path in (run / CHECKPOINTS).glob(f"{STEP}*") if path.name.removeprefix(STEP).isdecimal()]
    return sorted(folders, key=step_number)


def step_number(checkpoint: Path) -> int:
    return int(checkpoint.name.removeprefix(STEP))


def read_parts(folder: Path) -> tuple[CaptionTokenizer, Preprocess]:
    """Tokenizer and preprocessing of a model folder; raises UserError if they or the settings are not those saved."""
    require_intact(folder, (CONFIG, PREPROCESS, TOKENIZER))
    path = folder / PREPROCESS
    fields = read_json_table(path)
    try:
        preprocess = Preprocess.from_json(fields)
    except UserError as error:
        raise UserError(f"cannot read {path}: {error}") from error
    tokenizer = CaptionTokenizer.load(folder) if (folder / TOKENIZER).is_file() else NoTokenizer()
    return tokenizer, preprocess


def fill_weights(model: nn.Module, state: Mapping[str, Tensor], path: Path) -> None:
    """Load weights that were read from `path` into a model of exactly the same shape; otherwise load nothing and raise
    UserError, which names the differences."""
    expected = model.state_dict()
    _require_none([*state_dict_differences(expected, state), *_dtype_differences(expected, state)], path)
    model.load_state_dict(state)


def require_fit(expected: Mapping[str, Tensor], state: Mapping[str, Tensor], path: Path) -> None:
    """Raise UserError, which names the differences, where tensors of `path` have not the shapes of a state dict."""
    _require_none(state_dict_differences(expected, state), path)


def _require_none(problems: list[str], path: Path) -> None:
    if problems:
        more = f"; and {len(problems) - LISTED} more" if len(problems) > LISTED else ""
        settings = f" ({path.with_name(CONFIG)} holds its settings)" if path.with_name(CONFIG).is_file() else ""
        raise UserError(f"{path}{settings} does not fit this model: {'; '.join(problems[:LISTED])}{more}")


def state_dict_differences(expected: Mapping[str, Tensor], state: Mapping[str, Tensor]) -> list[str]:
    """Missing, extra and misshaped tensors of a state dict, one short phrase per key."""
    missing = [f"{key} is missing" for key in expected if key not in state]
    extra = [f"{one_line(key)} is not part of the model" for key in state if key not in expected]
    misshaped = [
        f"{key} is {_shape(state[key])}, not {_shape(expected[key])}"
        for key in expected
        if key in state and state[key].shape != expected[key].shape
    ]
    return misshaped + missing + extra


def _dtype_differences(expected: Mapping[str, Tensor], state: Mapping[str, Tensor]) -> list[str]:
    """Tensors of another type: to convert them in silence would hide that they are not what was saved."""
    both = ((key, expected[key].dtype, tensor.dtype) for key, tensor in state.items() if key in expected)
    return [f"{key} is {_dtype(found)}, not {_dtype(wanted)}" for key, wanted, found in both if wanted != found]


def card(model: Model, config: str, metrics: Mapping[str, float]) -> str:
    numbers = "\n".join(f"| {name} | {value:.4g} |" for name, value in metrics.items()) or "| (not evaluated) | |"
    kind, usage = model.described()
    return f"""# An Equipoise model

A contrastive {kind} of {count_parameters(model):,} parameters in a {model.space.dim}-dimensional
{type(model.space).__name__} space; logit scale exp(t) = {float(model.log_scale.detach().exp()):.4g}.

```python
import equipoise as eq

model = eq.load("this folder")
{usage}
```

| metric | value |
|---|---|
{numbers}

Made by this run:

```toml
{config.strip()}
```
"""


def _step_of(metrics: Mapping[str, float]) -> int | None:
    return int(metrics["step"]) if "step" in metrics else None


def _dtype(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _shape(tensor: Tensor) -> str:
    return "×".join(map(str, tensor.shape)) or "a scalar"
