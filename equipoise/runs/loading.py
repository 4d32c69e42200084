"""A model from its settings, and from the folder a run left behind."""

from __future__ import annotations

from pathlib import Path

import torch

from equipoise.config import Run, load_stored
from equipoise.data.tokens import Tokens
from equipoise.models.folder import CONFIG, WEIGHTS, model_folder, read_parts, read_weights
from equipoise.models.model import Model
from equipoise.training.device import torch_device
from equipoise.types import UserError


def load(path: str | Path, device: str | torch.device | None = None) -> Model:
    """The model of a folder that a run wrote, ready to encode: `eq.load("runs/demo")`. It stays on the processor
    unless `device` says otherwise: "cuda", or "auto" for a GPU where there is one."""
    place = torch_device(str(device)) if device is not None else torch.device("cpu")
    folder = model_folder(Path(path))
    tokens, preprocess = read_parts(folder)
    run = load_stored(folder / CONFIG).run
    if preprocess.to_json() != run.preprocess.to_json():
        raise UserError(f"{folder}: preprocess.json and the preprocess table of config.toml disagree; mend one of them")
    model = build_model(run, tokens)
    read_weights(model, folder / WEIGHTS)
    return model.to(place).eval()


def build_model(run: Run, tokens: Tokens) -> Model:
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
    )
