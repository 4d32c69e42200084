"""Ways of fine-tuning side by side: the tables of Oh et al. 2023 (m²-Mix, m³-Mix) at toy scale.

    python benchmarks/finetuning.py words --out FOLDER                 shapes, colours and textures it has never seen
    python benchmarks/finetuning.py scenes --out FOLDER                what it has seen, at any angle
    python benchmarks/finetuning.py shots --out FOLDER                 16 pictures of each shape, and four shifts
    python benchmarks/finetuning.py flickr8k --data DATA --out FOLDER  a model of emoji becomes one of photographs
    python benchmarks/finetuning.py cifar10 --data DATA --out FOLDER   the same, 16 pictures of each class

A start model is trained for every seed first, on noisy scenes or on emoji (DATA/emoji_64). `tuned` are the best weights
of the run on validation data, `kept` those between start and end that WiSE-FT chose there, `shifted` the kept ones
after embedding shift. All numbers are of test data (validation data where there is no test set). `before` is what the
start model was trained on: what is lost there was forgotten.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from cells import Row, add_options, numbers, run, table

import equipoise as eq
from equipoise.config import Loaded, Run, load_stored
from equipoise.data.scenes.simat_questions import SimatSettings, scene_transformations
from equipoise.evaluation.simat.sweep import simat
from equipoise.finetuning.methods import METHODS
from equipoise.io.atomic import write_text
from equipoise.models.folder import CONFIG
from equipoise.models.model import Model
from equipoise.types import UserError
from equipoise.workflows import finetune, run_recipe
from equipoise.workflows.finetune_select import tuned_folder
from equipoise.workflows.shift import ShiftRequest, apply_shift, find_shift

FORMER = "test, what the start model was trained on"
RECALLS = ("image_to_text_R@1", "text_to_image_R@1")
OBJECTIVES = {"": "", " + m²": "m2", " + m³": "m3"}


@dataclass(frozen=True)
class Way(Row):
    method: str = "ft"


@dataclass(frozen=True)
class Task:
    start: str  # the recipe of the model that is fine-tuned
    start_settings: tuple[str, ...]
    data: str  # the recipe of the data
    data_settings: tuple[str, ...]
    ways: tuple[Way, ...]
    columns: Mapping[str, str]
    folders: tuple[tuple[str, str], ...] = ()  # settings that name folders under --data


def ways(rate: float, few_shot: bool = False) -> tuple[Way, ...]:
    """All methods, at a learning rate that suits so small a model; what is added bears five times as much."""
    plain = ("objective.name=few_shot_plain",) if few_shot else ()
    m2, m3 = ("few_shot_m2", "few_shot") if few_shot else ("m2mix", "m3mix")
    usual, added = f"training.learning_rate={rate}", f"training.learning_rate={5 * rate}"
    chosen = ("training.best=acc1",) if few_shot else ()
    depth = "prompts.depth=2"

    def way(name: str, method: str, *settings: str) -> Way:
        return Way(name, "", (*chosen, *settings), method)

    found = [
        way("zero-shot", "zero-shot"),
        way("embedding shift", "embedding-shift"),
        way("FT", "wise-ft", usual, *plain),
        way("FT, τ = 0.05", "wise-ft", usual, *plain, "finetuning.tau=0.05"),
        way("FT, τ = 0.01", "wise-ft", usual, *plain, "finetuning.tau=0.01"),
        way("m²-Mix", "wise-ft", usual, f"objective.name={m2}"),
        way("m³-Mix", "wise-ft", usual, f"objective.name={m3}"),
        way("LP-FT", "lp-ft", usual, *plain),
        way("LP-FT + m³-Mix", "lp-ft", usual, f"objective.name={m3}"),
        way("LoRA", "lora", added, *plain),
        way("LoRA + m³-Mix", "lora", added, f"objective.name={m3}"),
        way("MaPLe", "maple", added, depth, *plain),
        way("MaPLe + m³-Mix", "maple", added, depth, f"objective.name={m3}"),
    ]
    if not few_shot:
        found[5:5] = [way("i-Mix", "i-mix", usual), way("Un-Mix", "un-mix", usual)]
    return tuple(found)


OF_PAIRS = {
    "R@1, tuned": "tuned/R@1",
    "kept": "kept/R@1",
    "shifted": "shifted/R@1",
    "before: R@1, tuned": "tuned/before",
    "before: kept": "kept/before",
    "alignment, tuned": "as/tuned/alignment",
    "uniformity, tuned": "as/tuned/uniformity",
}
OF_CLASSES = {
    "accuracy, tuned": "tuned/acc1",
    "kept": "kept/acc1",
    "shifted": "shifted/acc1",
    "before: R@1, tuned": "tuned/before",
    "before: kept": "kept/before",
}
SIMAT = {"SIMAT, tuned": "as/tuned/simat", "SIMAT, kept": "as/kept/simat"}
SHIFTS = {"shifts, tuned": "tuned/acc1_shifted", "shifts, kept": "kept/acc1_shifted"}
EMOJI = ("data.train=emoji_64/all-000.tar", "data.validation=", "data.validation_share=0.1", "data.test=",
         "training.steps=1500")  # fmt: skip
CLEAN = ("data.noise.shuffled=0", "data.noise.wrong_attribute=0", "data.noise.near_duplicates=0")
UNSEEN = (
    'data.shapes=["ring", "diamond", "hexagon", "crescent", "drop", "arrow", "flower", "house"]',
    'data.colours=["cyan", "pink", "brown", "grey", "red", "blue"]',
    'data.textures=["striped", "dotted"]',
)
TASKS = {
    "words": Task(
        "demo", ("training.steps=1000",), "demo", ("data.train_size=2000", *UNSEEN, *CLEAN), ways(2e-4),
        OF_PAIRS | SIMAT,
    ),
    "scenes": Task(
        "demo", ("training.steps=1500",), "demo",
        ("data.shift=rotation", "data.train_size=2000", *CLEAN),
        ways(2e-4), OF_PAIRS | SIMAT,
    ),
    "shots": Task(
        "demo", ("training.steps=1500",), "few-shot-scenes", (), ways(2e-4, few_shot=True), OF_CLASSES | SHIFTS,
    ),
    "flickr8k": Task(
        "flickr8k", EMOJI, "flickr8k",
        ("data.train=flickr8k_96/train-{000..002}.tar", "data.validation=flickr8k_96/dev-000.tar"),
        ways(2e-4), OF_PAIRS, (("data.root", ""),),
    ),
    "cifar10": Task(
        "flickr8k", EMOJI, "few-shot-cifar10", (), ways(2e-4, few_shot=True), OF_CLASSES, (("data.of.root", ""),),
    ),
}  # fmt: skip


def train_start(task: Task, seed: int, options: argparse.Namespace) -> None:
    """Of one seed, kept from one experiment to the next."""
    folder = start_of(options, seed)
    if not folder.exists():
        root = (f"data.root={options.data}",) if task.folders else ()
        run_recipe(task.start, [*task.start_settings, *root, f"seed={seed}"], folder, "")


def start_of(options: argparse.Namespace, seed: int) -> Path:
    return (options.starts or options.out) / f"start-{seed}"


def tune(row: Way, seed: int, extra: Sequence[str], file: Path, task: Task, options: argparse.Namespace) -> str:
    """Fine-tune a cell, write down what start, end and the weights that are kept give."""
    torch.set_num_threads(1)
    began, start = time.perf_counter(), start_of(options, seed)
    roots = [f"{key}={options.data / folder}" for key, folder in task.folders]
    settings = [*task.data_settings, *roots, *row.settings, *extra, f"seed={seed}"]
    with TemporaryDirectory() as place:
        out = Path(place) / "run"
        try:
            finetune(start, task.data, row.method, settings, out)
        except UserError:
            if not (out / "tuning.json").exists():  # else the start was better: that is a finding too
                raise
        told = json.loads((out / "tuning.json").read_text())
        found = _told(told["numbers"])
        if METHODS[row.method].trains:
            found |= _after(out, task)
        elif task.columns.keys() >= SIMAT.keys():
            found |= _of_start(eq.load(start, "auto"), load_stored(start / CONFIG).run)
        found["share"] = told["chosen"]
    about = {"method": row.method, "settings": settings, "seconds": time.perf_counter() - began}
    write_text(file, json.dumps({**about, "found": found}, indent=1) + "\n")
    return f"{file.stem}, {about['seconds']:.0f} s"


def _told(by_data: Mapping[str, Mapping[str, Mapping[str, float]]]) -> dict[str, float]:
    """tuned/R@1, kept/before, ...; a method that trains nothing has what it starts with."""
    found: dict[str, float] = {}
    for data, prefix in (("test", ""), (FORMER, "before")):
        models = by_data.get(data, {})
        for name, stage in (("tuned", "tuned"), ("kept", "chosen"), ("start", "start")):
            values = models.get(stage) or models.get("tuned") or models.get("start", {})
            found |= _named(name, values, prefix)
    return found


def _named(name: str, values: Mapping[str, float], prefix: str) -> dict[str, float]:
    recalls = [values[key] for key in RECALLS if key in values]
    if prefix:
        return {f"{name}/{prefix}": sum(recalls) / 2} if recalls else {}
    found = {f"{name}/{key}": value for key, value in values.items() if key.startswith("acc1")}
    if recalls:
        found[f"{name}/R@1"] = sum(recalls) / 2
        found[f"as/{name}/alignment"] = (values["image_to_text_alignment"] + values["text_to_image_alignment"]) / 2
        found[f"as/{name}/uniformity"] = values["uniformity"]
    return found


def _after(out: Path, task: Task) -> dict[str, float]:
    """Of the model that is kept: with embedding shift on top, and embedding arithmetic where it knows scenes."""
    model, loaded = eq.load(out, "auto"), load_stored(out / CONFIG)
    found = {}
    if task.columns.keys() >= SIMAT.keys():
        found = _arithmetic(model, loaded.run, "kept")
        found |= _arithmetic(eq.load(tuned_folder(out), "auto"), loaded.run, "tuned")
    return found | _shifted(model, loaded)


def _of_start(model: Model, of: Run) -> dict[str, float]:
    found = _arithmetic(model, of, "tuned")
    return {**found, "as/kept/simat": found["as/tuned/simat"]}


def _arithmetic(model: Model, of: Run, name: str) -> dict[str, float]:
    asked, gallery = scene_transformations(replace(of.data, shift="none"), SimatSettings(sources=400))
    return {f"as/{name}/simat": simat(model, asked, gallery)["simat"]}


def _shifted(model: Model, loaded: Loaded) -> dict[str, float]:
    run = loaded.run
    sweep = find_shift(model, run.data.build("train"), run.data.build("validation"), run.evaluation,
                       ShiftRequest(metric=run.training.best))  # fmt: skip
    apply_shift(model, loaded, sweep)
    found = {key.rpartition("/")[2]: value for key, value in numbers(model, run, "test").items()
             if not key.startswith("matching/")}  # fmt: skip
    return {**_named("shifted", found, ""), "shift": sweep.best}


def main() -> None:
    parser = argparse.ArgumentParser(description="Ways of fine-tuning side by side.")
    parser.add_argument("experiment", choices=TASKS)
    parser.add_argument("--data", type=Path, default=Path("."), help="the folder of emoji_64, flickr8k_96, cifar10_...")
    parser.add_argument("--starts", type=Path, help="the folder of start models (default: --out)")
    add_options(parser)
    options = parser.parse_args()
    task = TASKS[options.experiment]
    if not options.report:
        for seed in range(options.seeds):
            train_start(task, seed, options)
    print(table(run(task.ways, options, work=partial(tune, task=task, options=options)), task.columns))


if __name__ == "__main__":
    main()
