"""The driver of `equipoise autotune`: tries that were not made yet, a table of all, a recipe with the fastest.

OUT               the recipe: it extends the one given, with five settings of [training]
OUT.tries/        tries.json, every try with its pairs per second; tuning.json, what they were of
"""

from __future__ import annotations

import json
import os
import platform
import shlex
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from equipoise.config import load_run
from equipoise.io.atomic import write_text
from equipoise.io.folder_lock import only_writer
from equipoise.io.json_files import read_json_table
from equipoise.io.numbers import hand_over
from equipoise.io.progress import Progress
from equipoise.io.resumable import claim
from equipoise.io.tables import make_table, print_tables
from equipoise.settings.recipe import built_in_files, find_recipe
from equipoise.settings.toml import literal
from equipoise.training.device import torch_device
from equipoise.training.distributed.process_group import launched_processes
from equipoise.training.settings import PRECISIONS, Training
from equipoise.types import UserError
from equipoise.workflows.autotune.attempt import Trainer
from equipoise.workflows.autotune.search import KEYS, Settings, Space, Tried, faster, search

CLAIM, TRIES = "tuning.json", "tries.json"


@dataclass(frozen=True)
class AutotuneRequest:
    recipe: str
    out: Path  # the recipe to write
    overrides: Sequence[str] = ()
    seconds: float = 60.0  # a try
    precisions: Sequence[str] = ()  # to try besides the recipe's
    words: Sequence[str] = ()  # further words for every `equipoise train`

    def __post_init__(self) -> None:
        if not 1 <= self.seconds <= 86_400:
            raise UserError(f"--seconds is {self.seconds:g}; give from 1 to 86,400")
        for name in self.precisions:
            if name not in PRECISIONS:
                raise UserError(f"--precision {name} is none; choose of {', '.join(PRECISIONS)}")
        if self.out.suffix != ".toml":
            raise UserError(f"--out {self.out} is to be a recipe; give a name that ends in .toml")


def autotune(request: AutotuneRequest, command: str = "") -> Tried:
    """Try what was not tried yet and write the recipe; raises UserError where nothing fits."""
    if launched_processes() > 1:
        raise UserError("autotune measures one process; start it without torchrun")
    loaded = load_run(request.recipe, request.overrides)
    training, folder = loaded.run.training, request.out.with_name(f"{request.out.name}.tries")
    start = {key: getattr(training, key) for key in KEYS}
    space = Space(start, training.batch_size, request.precisions, os.cpu_count() or 1, *_gpu_and_bf16(training))
    with only_writer(folder):
        machine = {"machine": machine_name(), "torch": torch.__version__}
        claim(folder, {"recipe": loaded.table, "seconds": request.seconds, **machine}, CLAIM)
        known = _read(folder)
        print(
            f"At most {space.most_tries()} tries of {request.seconds:g} s, each after the time that a run takes to "
            f"begin; {len(known)} of them are made already",
            flush=True,
        )
        if space.added_precisions():
            print("The recipe is float32; bf16 is tried too, which rounds more", flush=True)
        trainer = Trainer(
            request.recipe, request.overrides, request.words, folder / "try", request.seconds, training.batch_size
        )
        made = _search(space, trainer, known, folder)
        best = _best(made)
        _print(made, best)
        write_text(request.out, _recipe(request, made, best, command))
    print(f"The fastest of them is in {request.out}; train with: {_train_command(request)}")
    hand_over({**best.settings, "pairs_per_second": best.pairs_per_second, "recipe": str(request.out)})
    return best


def _gpu_and_bf16(training: Training) -> tuple[bool, bool]:
    """Whether a recipe trains on a GPU, and whether that has units for bf16."""
    gpu = training.torch_device().type == "cuda"
    return gpu, gpu and torch.cuda.is_bf16_supported()


def _search(space: Space, trainer: Trainer, known: list[Tried], folder: Path) -> list[Tried]:
    made: list[Tried] = []

    def attempt(settings: Settings) -> Tried:
        return next((one for one in known if one.settings == settings), None) or trainer.attempt(settings)

    with Progress(space.most_tries(), "trying") as progress:
        for tried in search(space, attempt):
            made.append(tried)
            if tried not in known:
                known.append(tried)
                write_text(folder / TRIES, json.dumps({"tries": [asdict(one) for one in known]}, indent=2) + "\n")
            progress.note(f"{_shown(tried.settings)}: {_outcome(tried)}")
            progress.update(len(made))
    return made


def _read(folder: Path) -> list[Tried]:
    if not (folder / TRIES).exists():
        return []
    stored = read_json_table(folder / TRIES, "remove it, and try again")
    try:
        return [tried for tried in (Tried(**one) for one in stored["tries"]) if set(tried.settings) == set(KEYS)]
    except (KeyError, TypeError) as error:
        raise UserError(f"{folder / TRIES} holds no tries; remove it, and try again") from error


def _best(made: Sequence[Tried]) -> Tried:
    best: Tried | None = None
    for tried in made:
        best = faster(best, tried)
    if best is None:
        raise UserError(f"no try came to an end, the first for this: {made[0].why}; change the recipe with --set")
    return best


def _print(made: Sequence[Tried], best: Tried) -> None:
    rows = [[*map(str, tried.settings.values()), _outcome(tried)] for tried in made]
    print_tables(make_table([*KEYS, "pairs/s"], rows, text_columns=len(KEYS), bold=[made.index(best)]))


def _outcome(tried: Tried) -> str:
    return f"{tried.pairs_per_second:,.1f}" if tried.fits else tried.why


def _shown(settings: Settings) -> str:
    return ", ".join(f"{key} {value}" for key, value in settings.items())


def _recipe(request: AutotuneRequest, made: Sequence[Tried], best: Tried, command: str) -> str:
    first = f", with its own settings {_outcome(made[0])}" if made[0].fits else ""
    lines = [
        f"# {request.recipe} as it trains fastest on {machine_name()}, torch {torch.__version__}:",
        f"# {best.pairs_per_second:,.1f} pairs/s{first}.",
        *([f"# made by    {command}"] if command else []),
        f"extends = {literal(_parent(request))}",
        "",
        "[training]",
        *(f"{key} = {literal(value)}" for key, value in best.settings.items()),
    ]
    return "\n".join(lines) + "\n"


def _parent(request: AutotuneRequest) -> str:
    """The recipe as the new one must name it: a built-in one by name, a file by its path from there."""
    file = find_recipe(request.recipe)
    built_in = next((name for name, path in built_in_files().items() if path == file), None)
    return built_in or os.path.relpath(file.resolve(), request.out.resolve().parent)


def _train_command(request: AutotuneRequest) -> str:
    changed = [word for setting in request.overrides for word in ("--set", setting)]
    return shlex.join(["equipoise", "train", str(request.out), *changed])


def machine_name() -> str:
    """The GPU, or the processor's kind and its cores."""
    if torch_device("auto").type == "cuda":
        return torch.cuda.get_device_name()
    return f"{platform.machine()}, {os.cpu_count()} cores"
