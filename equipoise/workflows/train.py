"""A run from recipe to report: build, train, evaluate, write; shared by the processes of a launch."""

from __future__ import annotations

import signal
import warnings
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

from equipoise.config import Loaded, Run, load_stored
from equipoise.data.keep.readable import readable
from equipoise.data.modalities import ModalFiles
from equipoise.evaluation.retrieval import require_relevance
from equipoise.finetuning.comparison import Comparison, DidNotHelp
from equipoise.io.numbers import hand_over
from equipoise.io.tables import make_table, print_tables
from equipoise.models.folder import CONFIG, step_folders, step_number
from equipoise.models.model import Model
from equipoise.reports.embedding_map import require_map
from equipoise.reports.report import REPORT
from equipoise.settings.recipe import read_recipe
from equipoise.training.checkpoint.run_folder import holds_run, locked_run, require_new, require_same
from equipoise.training.distributed.agreement import data_facts, require_agreement
from equipoise.training.distributed.process_group import process_group, require_resume, set_timeout
from equipoise.training.distributed.ranks import Ranks
from equipoise.training.loop import TrainResult
from equipoise.training.memory import explaining_memory
from equipoise.types import UserError
from equipoise.workflows.clean.baseline import BASELINE, HEADER, bought, on_all_pairs
from equipoise.workflows.clean.by_hand import by_hand
from equipoise.workflows.clean.online import train_online
from equipoise.workflows.clean.training import naming_what_was_judged, with_clean_pairs
from equipoise.workflows.finetune_select import read_comparison, select_weights
from equipoise.workflows.own_files import RECIPE, own_run, recipe_run
from equipoise.workflows.save import collect_artifacts, print_comparison, print_findings
from equipoise.workflows.sizes import with_epochs, with_steps
from equipoise.workflows.start_model import Start, start_of
from equipoise.workflows.subject import names_files
from equipoise.workflows.train_model import train_run

RUNS = Path("runs")


def run_recipe(
    recipe: str,
    overrides: Sequence[str],
    out: Path | None,
    command: str,
    resume: bool = False,
    *,
    base: str = "",
    epochs: float | None = None,
) -> int:
    """Train by a recipe, or on files by the recipe `base`; with `resume`, go on with the run in `out`, if there is
    one. Returns the exit status."""
    with process_group() as ranks:
        require_resume(resume)
        loaded = _loaded(recipe, with_epochs(overrides, epochs), base)
        require_agreement(ranks, lambda: {**loaded.table, "--out": out and str(out), "--resume": resume})
        folder = ranks.on_main(lambda: folder_for(loaded.run.name, out, resume))
        return run_training(loaded, folder, command, resume, ranks)


def _loaded(recipe: str, overrides: Sequence[str], base: str) -> Loaded:
    if names_files(recipe):
        return own_run(recipe, base or RECIPE, overrides, "divided", sized=not base)
    if base:
        raise UserError(f"--recipe says how to train on files, and {recipe} is a recipe; leave out one of them")
    return recipe_run(read_recipe(recipe, overrides).layers)


def resume_folder(folder: Path, overrides: Sequence[str], command: str) -> int:
    """Go on with the run in `folder`, by the settings stored there. Returns the exit status."""
    with process_group() as ranks:
        if not (folder / CONFIG).is_file():
            raise UserError(f"{folder} holds no run to resume: there is no {CONFIG} in it; check the path")
        loaded = with_steps(load_stored(folder / CONFIG, overrides))
        require_agreement(ranks, lambda: {**loaded.table, "--resume": str(folder)})
        return run_training(loaded, folder, command, resume=True, ranks=ranks)


def run_training(
    loaded: Loaded, folder: Path, command: str, resume: bool, ranks: Ranks, start: Start | None = None
) -> int:
    """Train, evaluate and report; returns 0, or 128 + its number if a signal ended the run. Raises DidNotHelp after a
    run that was to make `start` better and did not, and UserError for want of memory."""
    with explaining_memory(folder):
        return _run_training(loaded, folder, command, resume, ranks, start)


def _run_training(loaded: Loaded, folder: Path, command: str, resume: bool, ranks: Ranks, start: Start | None) -> int:
    set_timeout(ranks, loaded.run.training.rank_timeout)
    require_map(loaded.run.evaluation.map)
    selected = None
    with locked_run(folder) if ranks.is_main else nullcontext():
        if ranks.on_main(lambda: _is_finished(loaded, folder, resume)):
            ranks.print(f"The run in {folder} is finished; raise training.steps to train on")
            hand_over({"folder": str(folder), "finished": True})
            require_better(ranks.on_main(lambda: read_comparison(folder)), folder)
            return 0
        start = start or ranks.on_each(lambda: start_of(loaded, folder))
        ranks.on_each(lambda: _require_test(loaded.run))
        go_on = f"go on with: equipoise train --resume {folder}"
        baseline = on_all_pairs(loaded)
        try:
            loaded = with_clean_pairs(loaded, folder, ranks)
        except KeyboardInterrupt:
            ranks.print(f"Stopped while pairs were judged; {go_on}")
            ranks.barrier()  # as below
            return 128 + signal.SIGINT
        if baseline:
            ranks.print("Training on all pairs, to compare with")
            if status := _run_training(baseline, folder / BASELINE, command, True, ranks, start):
                return status
            ranks.print("Training on what was kept")
        with naming_what_was_judged(folder, ranks):
            loaded, model, outcome = _trained(loaded, folder, ranks, start)
        if outcome.signal or model is None:
            ranks.print(f"Stopped by {signal.Signals(outcome.signal).name} after step {outcome.step}; {go_on}")
            ranks.barrier()  # for torchrun ends all as soon as one has left
            return 128 + outcome.signal
        try:
            selected = select_weights(loaded, start, model.tokens, folder, ranks) if start else None
            test = readable(loaded.run.data.build("test"), model.tokens)
            require_agreement(ranks, lambda: data_facts("test", test))
            artifacts = collect_artifacts(loaded, model, outcome, command, test, ranks, selected)
            ranks.on_main(lambda: artifacts.write(folder))
        except KeyboardInterrupt:
            ranks.print(f"Stopped after step {outcome.step}, before the report; {go_on}")
            return 128 + signal.SIGINT
    comparison = selected.comparison if selected else None
    if ranks.is_main:
        print_comparison(comparison) if comparison else print_findings(artifacts.findings)
        if rows := bought(folder, artifacts.metrics):
            print_tables(make_table(HEADER, rows, title="what cleaning bought"))
            hand_over({"bought": {name: {"all pairs": before, "kept": after} for name, before, after in rows}})
    ranks.print(f"\nThe report is {folder / REPORT}; the model is {folder}")
    if decide := by_hand(loaded.run.keep, folder, model):
        ranks.print(decide.sentence)
    hand_over({"folder": str(folder)})
    require_better(comparison, folder)
    return 0


def _require_test(run: Run) -> None:
    """Raise UserError for test samples of modalities, or a file of their relevance, that cannot be read: now, and not
    after the training."""
    if isinstance(run.data, ModalFiles) or run.evaluation.relevance:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what they warn of is told when they are read to be tested on
            require_relevance(run.data.build("test"), run.evaluation)


def _trained(
    loaded: Loaded, folder: Path, ranks: Ranks, start: Start | None
) -> tuple[Loaded, Model | None, TrainResult]:
    """Train; with pairs that are judged meanwhile, also the run as its report tells of it."""
    if loaded.run.clean.enabled and loaded.run.clean.online:
        return train_online(loaded, folder, ranks, start)
    return loaded, *train_run(loaded, folder, ranks, start)


def folder_for(name: str, out: Path | None, resume: bool = False) -> Path:
    """`out`, or a folder under runs/: a new one, unless the run is to be resumed."""
    candidates = [RUNS / name, *(RUNS / f"{name}-{number}" for number in range(2, 10_000))]
    return out or next(folder for folder in candidates if resume or not folder.exists())


def _is_finished(loaded: Loaded, folder: Path, resume: bool) -> bool:
    """Whether nothing is left to do in the folder; raises UserError if the run may not begin there."""
    if resume and holds_run(folder):
        require_same(folder, load_stored(folder / CONFIG).table, loaded.table)
    else:
        require_new(folder)
    checkpoints = step_folders(folder)
    far_enough = bool(checkpoints) and step_number(checkpoints[-1]) >= loaded.run.training.steps
    is_finished = far_enough and (folder / REPORT).exists()
    if checkpoints and not is_finished:  # the settings so far: those beside the report may have been edited since
        require_same(checkpoints[-1], load_stored(checkpoints[-1] / CONFIG).table, loaded.table)
    return is_finished


def require_better(comparison: Comparison | None, folder: Path) -> None:
    """Raises DidNotHelp where fine-tuning has made no model better."""
    if comparison and not comparison.is_better:
        raise DidNotHelp(comparison.refusal(str(folder)))
