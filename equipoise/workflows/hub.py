"""`equipoise push` and `equipoise pull`: a model folder to the Hugging Face hub, or to a plain folder, and back.

What travels are the files of a model folder and no others: weights as safetensors, settings, tokenizer, preprocessing,
metrics, digests, and the card, which the hub shows. What was pulled is compared with its digests and copied; nothing of
it is run or imported.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

from equipoise.interop.hub import HUB, fetch, upload
from equipoise.io.atomic import replacing
from equipoise.io.digests import DIGESTS, require_intact
from equipoise.io.numbers import hand_over
from equipoise.models.folder import CARD, CONFIG, METRICS, MODEL_FILES, WEIGHTS, model_folder, read_weights
from equipoise.types import UserError
from equipoise.workflows.convert import require_new

FILES = (*MODEL_FILES, METRICS, CARD, DIGESTS)
PATHS = (".", "/", "~")  # what a folder's path starts with, and no name of the hub does
HEADER = """---
library_name: equipoise
pipeline_tag: zero-shot-image-classification
tags:
- equipoise
- image-text
---

"""


def push_model(model: Path, repo: str, private: bool = False) -> None:
    """Upload a model folder to the hub, or copy it to a new folder, with a card that the hub reads."""
    folder = model_folder(model)
    require_intact(folder, MODEL_FILES)
    if repo.startswith(PATHS):
        out = Path(repo).expanduser()
        require_new(out)
        with replacing(out) as temporary:
            _copy(folder, temporary)
        where = str(out)
    else:
        with TemporaryDirectory(prefix="equipoise-push-") as prepared:
            _copy(folder, Path(prepared) / "model")
            where = upload(Path(prepared) / "model", _name(repo), private)
    print(f"{where} holds the model of {folder}")
    hand_over({"model": str(folder), "repo": where})


def pull_model(repo: str, out: Path) -> None:
    """Write what `push` left on the hub, or in a folder, as a model folder."""
    require_new(out)
    source = Path(repo).expanduser() if repo.startswith(PATHS) else fetch(_name(repo), FILES)
    if not (source / CONFIG).is_file() or not (source / WEIGHTS).is_file():
        hint = "" if source.is_dir() else " (there is no such folder)"
        raise UserError(
            f"{repo} holds no model of Equipoise{hint}: {CONFIG} or {WEIGHTS} is missing; a model of open_clip or "
            f"transformers is read by `equipoise import {HUB}ORG/NAME --out FOLDER`"
        )
    with replacing(out) as temporary:
        _copy(source, temporary, header=False)
        require_intact(temporary, MODEL_FILES)
        read_weights(temporary)  # whole, and finite
    print(f"{out} holds the model of {repo}")
    hand_over({"repo": repo, "folder": str(out)})


def _copy(folder: Path, out: Path, header: bool = True) -> None:
    """Copy the files of a model folder, and put the hub's header before the card."""
    out.mkdir(parents=True)
    for name in FILES:
        if (folder / name).is_file():
            shutil.copyfile(folder / name, out / name)
    card = out / CARD
    text = card.read_text(encoding="utf-8") if card.is_file() else "# An Equipoise model\n"
    if header and not text.startswith("---"):
        card.write_text(HEADER + text, encoding="utf-8")


def _name(repo: str) -> str:
    name = repo.removeprefix(HUB)
    if name.count("/") != 1 or not all(name.split("/")):
        raise UserError(f"{repo} is no name of the hub, ORG/NAME; a folder's path starts with ./, ../, ~ or /")
    return name
