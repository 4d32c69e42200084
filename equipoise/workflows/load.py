"""Models: from their settings, from the folder that a run left behind, and from the files of other libraries."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import torch

from equipoise.config import Loaded, Run, load_settings, load_stored
from equipoise.data.tokenizer import CaptionTokenizer, NoTokenizer
from equipoise.interop import ImportRequest, is_foreign, read_foreign
from equipoise.io.digests import verifying
from equipoise.models.folder import (
    CONFIG,
    TOKENIZER,
    WEIGHTS,
    fill_weights,
    model_folder,
    read_parts,
    read_weights,
)
from equipoise.models.modal_model import ModalModel
from equipoise.models.modalities import NamedModalities
from equipoise.models.model import Model
from equipoise.models.shapes import require_shapes
from equipoise.settings.trust import trusting
from equipoise.training.device import torch_device
from equipoise.types import UserError


def load(
    path: str | Path,
    device: str | torch.device | None = None,
    *,
    model: str = "",
    tokenizer: str = "",
    preprocess: str = "",
    trust: Sequence[str] = (),
    verify: bool = True,
) -> Model:
    """The model of a folder that a run wrote, ready to encode: `eq.load("runs/demo")`. It stays on the processor
    unless `device` says otherwise: "cuda", or "auto" for a GPU where there is one.

    Also a folder of open_clip or of transformers' CLIPModel, a file of weights, or hf-hub:ORG/NAME. A file may need
    `model`, open_clip's name for what it holds; `tokenizer` and `preprocess` stand in for what is not beside it.

    A folder's settings may name Python classes of your own; they are imported only from the packages in `trust`, such
    as `trust=("my_package",)`.

    The files of a model folder are compared with its digests.json; `verify=False` takes them as they are."""
    place = torch_device("cpu" if device is None else str(device))
    with trusting(trust), verifying(verify):
        return load_with_settings(path, place, ImportRequest(model, tokenizer, preprocess))[0]


def load_with_settings(
    path: str | Path, device: torch.device, request: ImportRequest | None = None
) -> tuple[Model, Loaded]:
    """A model, ready to encode, and the settings that describe it: those of the run that trained it, or, for a model of
    another library, those that `import` would write."""
    request = request or ImportRequest()
    if not is_foreign(path):
        if request != ImportRequest():
            raise UserError(
                f"{path} is a model folder, which says everything; leave out model, tokenizer and preprocess"
            )
        model, loaded = _load_own(path)
    else:
        model, loaded = load_foreign(path, request)
    return model.to(device).eval(), loaded


def _load_own(path: str | Path) -> tuple[Model, Loaded]:
    folder = model_folder(Path(path))
    tokens, preprocess = read_parts(folder)
    loaded = load_stored(folder / CONFIG)
    run = loaded.run
    if isinstance(tokens, NoTokenizer) and run.tokens.kind != "none":
        raise UserError(f"{folder / TOKENIZER} is missing, without which texts cannot be read; bring it back")
    require_shapes(lambda: build_model(run, tokens), folder / WEIGHTS)
    if preprocess.to_json() != run.preprocess.to_json():
        raise UserError(f"{folder}: preprocess.json and the preprocess table of config.toml disagree; mend one of them")
    model = build_model(run, tokens)
    fill_weights(model, run.lora.merged(read_weights(folder)), folder / WEIGHTS)
    return model, loaded


def load_foreign(path: str | Path, request: ImportRequest | None = None) -> tuple[Model, Loaded]:
    """The model at a path that another library wrote, and the settings that describe it as one of ours."""
    foreign = read_foreign(path, request)
    name = re.sub(r"\W+", "-", Path(path).name.partition(".")[0]).strip("-") or "imported"
    loaded = load_settings(foreign.plain.settings(name, foreign.state), foreign.where)
    with torch.device("meta"):  # shapes alone: the numbers are those of the file
        model = build_model(loaded.run, foreign.tokenizer)
    foreign.fill(model)
    return model.eval(), loaded


def build_model(run: Run, tokens: CaptionTokenizer) -> Model:
    """The model of a run; where prompts take a part of a tokenizer's context, `model.tokens` has the rest."""
    if run.prompts.length and not isinstance(tokens, NoTokenizer):
        tokens = tokens.within(run.caption_tokens().context)
    if isinstance(run.modalities, NamedModalities):
        return ModalModel(
            run.modalities,
            space=run.space,
            temperature=run.temperature,
            preprocess=run.preprocess,
            tokens=tokens,
            bias=run.objective.learned_bias,
        )
    return Model(
        image=run.image,
        text=run.text,
        readout=run.readout,
        space=run.space,
        temperature=run.temperature,
        preprocess=run.preprocess,
        tokens=tokens,
        regions=run.regions,
        bias=run.objective.learned_bias,
        heads=run.objective.heads,
        shift=run.shift,
        prompts=run.prompts,
    )
