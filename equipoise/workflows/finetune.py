"""Fine-tuning: `equipoise finetune`, and the same from a script.

finetune("runs/demo", "flickr8k", "m3mix", ["seed=1"], Path("runs/mine"))
json.loads(Path("runs/mine/tuning.json").read_text())["numbers"]["test"]["tuned"]["mean_recall"]
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from equipoise.config import Loaded, load_layers, load_settings
from equipoise.finetuning.class_targets import class_layer, require_class_targets
from equipoise.finetuning.comparison import START as BEFORE
from equipoise.finetuning.comparison import TUNED
from equipoise.finetuning.layers import finetuning_layers
from equipoise.finetuning.methods import DEFAULT, METHODS
from equipoise.models.modal_model import ModalModel
from equipoise.settings.layers import Layer
from equipoise.settings.overrides import command_line
from equipoise.settings.recipe import find_recipe, recipe_layers
from equipoise.training.checkpoint.run_folder import holds_run, require_new
from equipoise.training.distributed.agreement import require_agreement
from equipoise.training.distributed.process_group import process_group
from equipoise.training.distributed.ranks import Ranks
from equipoise.types import UserError
from equipoise.workflows.finetune_measure import Measurer
from equipoise.workflows.finetune_select import measure_start, write_comparison
from equipoise.workflows.own_files import RECIPE, data_layer, fitted, recipe_run
from equipoise.workflows.save import print_comparison
from equipoise.workflows.shift import ShiftRequest, find_shift, write_shifted
from equipoise.workflows.sizes import with_epochs
from equipoise.workflows.start_model import START, Start, load_start
from equipoise.workflows.subject import names_files
from equipoise.workflows.train import folder_for, require_better, run_training


def finetune(
    model: str | Path,
    data: str | Path,
    method: str = DEFAULT,
    overrides: Sequence[str] = (),
    out: Path | None = None,
    command: str = "",
    resume: bool = False,
    epochs: float | None = None,
) -> int:
    """Fine-tune `model` on the data of a recipe, or on files; returns 0, or 128 + its number if a signal ended the run.

    `out` then holds the model, its report and `tuning.json`: the score of every place between start and end, and what
    was measured of start, end and the best place. Where none is better than the start, these are written all the same,
    the model is the start model, and `DidNotHelp` (a `UserError`) says so.
    """
    if resume and out is None:
        raise UserError("--resume goes on with the run in a folder; say which with --out FOLDER")
    overrides, is_files = with_epochs(overrides, epochs), names_files(str(data))
    if not is_files:
        find_recipe(data)  # raises UserError before the model is loaded
    with process_group() as ranks:
        name = str(model)
        start = ranks.on_each(lambda: _start(name, out, resume))
        given = _own_layers(str(data), overrides) if is_files else data
        layers = finetuning_layers(name, start.table, given, method, overrides)
        layers = for_classes(layers, method) if METHODS[method].trains else layers
        loaded = _loaded(layers, method, is_files)
        require_agreement(ranks, lambda: {**loaded.table, "--out": out and str(out), "--resume": resume})
        folder = ranks.on_main(lambda: folder_for(loaded.run.name, out, resume))
        if METHODS[method].shifts:
            return _shift(loaded, start, folder, command, ranks)
        if not METHODS[method].trains:
            return _measure(loaded, start, folder, ranks)
        return run_training(loaded, folder, command, resume, ranks, start)


def _loaded(layers: tuple[Layer, ...], method: str, is_files: bool) -> Loaded:
    if not METHODS[method].trains:
        return load_layers(*layers)
    return fitted(layers, follow=True) if is_files else recipe_run(layers)


def _own_layers(data: str, overrides: Sequence[str]) -> tuple[Layer, ...]:
    """Files as the layers of a recipe."""
    return (*recipe_layers(RECIPE), data_layer(data, command_line(overrides, source="--set"), "divided"))


def for_classes(layers: tuple[Layer, ...], method: str) -> tuple[Layer, ...]:
    """The layers, the command line last, with an objective that suits data of classes where the data is that."""
    loaded = load_layers(*layers)
    if not getattr(loaded.run.data, "names_classes", False):
        return layers
    own = class_layer(loaded.run.objective, loaded.table["objective"]["name"], layers[-1])
    if own is None:
        require_class_targets(loaded.run.objective, loaded.table["objective"]["name"], method)
        return layers
    return (*layers[:-1], own, layers[-1])


def _start(name: str, out: Path | None, resume: bool) -> Start:
    """The start model; for a run that is resumed, the copy it started from."""
    goes_on = resume and out is not None and holds_run(out)
    if not goes_on:
        start = load_start(name)
        if isinstance(start.model, ModalModel):
            raise UserError(
                f"{name} reads named modalities, and fine-tuning is of images and texts; train with `equipoise train`, "
                "or tell other labels from its points with `equipoise probe`"
            )
        return start
    assert out is not None
    if not (out / START).is_dir():
        raise UserError(f"{out / START} is missing, the model that this run started from; bring it back, or start anew")
    copy = load_start(out / START)
    return Start(name, copy.model, copy.table, copy.metrics)


def _measure(loaded: Loaded, start: Start, folder: Path, ranks: Ranks) -> int:
    """Measure the start model: the method trains nothing."""
    ranks.on_main(lambda: require_new(folder))
    comparison = measure_start(loaded, start, ranks)
    ranks.on_main(lambda: write_comparison(folder, comparison))
    if ranks.is_main:
        print_comparison(comparison)
    ranks.print(f"\nThe numbers are in {folder}")
    return 0


def _shift(loaded: Loaded, start: Start, folder: Path, command: str, ranks: Ranks) -> int:
    """Shift the embeddings of the start model; write it with the numbers before and after."""
    if ranks.world > 1:
        raise UserError("embedding-shift trains nothing and needs one process; start it without torchrun")
    require_new(folder)
    run, model = loaded.run, start.model
    measurer = Measurer(run, start, ranks)
    measurer.measure(BEFORE, model)
    chosen = ShiftRequest(metric=run.training.best)
    sweep = find_shift(model, run.data.build("train"), measurer.validation, run.evaluation, chosen)
    write_shifted(model, load_settings(start.table, start.path), sweep, folder, {"model": start.path}, command)
    measurer.measure(TUNED, model)
    comparison = measurer.comparison((1.0,), (measurer.score(model),))
    write_comparison(folder, comparison)
    print_comparison(comparison)
    require_better(comparison, folder)
    return 0
