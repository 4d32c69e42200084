"""What a run does, from recipe to report: build, train, evaluate, write down. Several processes do it together."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from contextlib import nullcontext
from itertools import islice
from pathlib import Path

import torch

from equipoise.config import Loaded, Run, dump, load_run, load_stored
from equipoise.data.batches import Batches
from equipoise.data.source import Source
from equipoise.data.tokens import Tokens
from equipoise.evaluation.evaluate import validate, validation_metrics
from equipoise.files import write_text
from equipoise.models.fit import require_fit
from equipoise.models.folder import CONFIG, read_parts, step_folders, step_number
from equipoise.models.model import Model
from equipoise.reports.report import REPORT
from equipoise.runs.loading import build_model
from equipoise.runs.writing import print_findings, remains_of
from equipoise.training.joining import joined, wait_at_most
from equipoise.training.lock import locked
from equipoise.training.loop import Outcome, train
from equipoise.training.parallel import own_device
from equipoise.training.place import holds_run, require_new, require_same
from equipoise.training.ranks import Ranks
from equipoise.types import UserError

RUNS = Path("runs")
CAPTIONS_FOR_TOKENS = 50_000  # enough to learn a vocabulary from


def run_recipe(recipe: str, overrides: Sequence[str], out: Path | None, command: str, resume: bool = False) -> int:
    """Carry out a recipe; with `resume`, go on with the run that `out` holds, if it holds one."""
    with joined() as ranks:
        loaded = load_run(recipe, overrides)
        name = loaded.run.name
        folder = ranks.first(lambda: (out or RUNS / name) if resume else _new_folder(name, out))
        return carry_out(loaded, folder, command, resume, ranks)


def resume_folder(folder: Path, overrides: Sequence[str], command: str) -> int:
    """Go on with the run in `folder`, by the settings stored there."""
    with joined() as ranks:
        if not (folder / CONFIG).is_file():
            raise UserError(f"{folder} holds no run to resume: there is no {CONFIG} in it; check the path")
        return carry_out(load_stored(folder / CONFIG, overrides), folder, command, resume=True, ranks=ranks)


def carry_out(loaded: Loaded, folder: Path, command: str, resume: bool, ranks: Ranks) -> int:
    """Train, evaluate and report; 0 at the end, 128 + its number if a signal ended the run before."""
    wait_at_most(ranks, loaded.run.training.rank_timeout)
    with locked(folder) if ranks.leads else nullcontext():
        if ranks.first(lambda: _is_finished(loaded, folder, resume)):
            ranks.say(f"The run in {folder} is finished; raise training.steps to train on")
            return 0
        model, outcome = train_run(loaded, folder, ranks)
        go_on = f"go on with: equipoise train --resume {folder}"
        if outcome.signal:
            ranks.say(f"Stopped by {signal.Signals(outcome.signal).name} after step {outcome.step}; {go_on}")
            ranks.wait()  # for torchrun ends all as soon as one has left
            return 128 + outcome.signal
        try:
            remains = remains_of(loaded, model, outcome, command, loaded.run.data.build("test"), ranks)
            ranks.first(lambda: remains.write(folder))
        except KeyboardInterrupt:
            ranks.say(f"Stopped after step {outcome.step}, before the report; {go_on}")
            return 128 + signal.SIGINT
    if ranks.leads:
        print_findings(remains.findings)
    ranks.say(f"\nThe report is {folder / REPORT}; the model is {folder}")
    return 0


def train_run(loaded: Loaded, folder: Path, ranks: Ranks | None = None) -> tuple[Model, Outcome]:
    """The model a recipe describes, trained; metrics and checkpoints in `folder`, whose newest one is gone on from."""
    run, ranks = loaded.run, ranks or Ranks()
    device = own_device(run.training.torch_device(), ranks)
    source = run.shuffle.applied_to(run.data.build("train"))
    checkpoints = ranks.first(lambda: step_folders(folder))
    torch.manual_seed(run.seed)
    tokens = read_parts(checkpoints[-1])[0] if checkpoints else ranks.first(lambda: _new_tokens(run, source))
    model = build_model(run, tokens)
    require_fit(model, source)
    if not checkpoints:
        model.load_pretrained()
        if model.shift is not None:
            model.shift.require_measured()
    batches = Batches(
        source,
        model.tokens,
        run.preprocess,
        batch_size=run.training.batch_size,
        seed=run.seed,
        device=device,
        share=ranks.share,
        workers=run.training.workers,
        timeout=run.training.loader_timeout,
        views=run.objective.views,
        augment=run.augment,
    )
    validation = run.data.build("validation")
    _require_metric(run.training.best, validation_metrics(validation))
    if checkpoints:
        ranks.say(f"Going on from {checkpoints[-1]}")
    ranks.first(lambda: _begin(folder, loaded))
    outcome = train(
        model,
        run.objective,
        batches,
        run.training,
        folder=folder,
        config=dump(loaded.table),
        evaluate=lambda model: validate(model, validation, run.evaluation),
        resume=bool(checkpoints),
        ranks=ranks,
    )
    return model, outcome


def _is_finished(loaded: Loaded, folder: Path, resume: bool) -> bool:
    """Whether there is nothing left to do in the folder; a user's mistake if the run may not begin there."""
    if resume and holds_run(folder):
        require_same(folder, load_stored(folder / CONFIG).table, loaded.table)
    else:
        require_new(folder)
    checkpoints = step_folders(folder)
    far_enough = bool(checkpoints) and step_number(checkpoints[-1]) >= loaded.run.training.steps
    return far_enough and (folder / REPORT).exists()


def _begin(folder: Path, loaded: Loaded) -> None:
    (folder / REPORT).unlink(missing_ok=True)  # of a shorter run that is trained on
    write_text(folder / CONFIG, dump(loaded.table))


def _require_metric(name: str, known: Sequence[str]) -> None:
    """Before training: a wrong name must not cost the steps up to the first evaluation."""
    if name not in known:
        raise UserError(f'training.best = "{name}" is not a metric of the validation data; choose {", ".join(known)}')


def _new_tokens(run: Run, source: Source) -> Tokens:
    captions = (caption for index in range(len(source)) for caption in source.pair(index).captions)
    return Tokens.from_config(run.caption_tokens(), islice(captions, CAPTIONS_FOR_TOKENS))


def _new_folder(name: str, out: Path | None) -> Path:
    """The folder asked for, or a new one under runs/."""
    candidates = [RUNS / name, *(RUNS / f"{name}-{number}" for number in range(2, 10_000))]
    return out or next(folder for folder in candidates if not folder.exists())
