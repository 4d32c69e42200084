"""The driver of `equipoise sweep`: trials that are missing are trained, all are written down, the best is named.

FOLDER/trials/NAME/       the run of a trial: model, report, metrics
FOLDER/trials/NAME.log    what it printed
FOLDER/trials.json        every trial: settings, seed, metric, seconds, why it failed; and the settings chosen
FOLDER/table.md           a row per combination
FOLDER/sweep.png          the same as a picture
FOLDER/sweep.json         what all trials share, so that no other sweep lands in the folder
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from equipoise.config import Loaded, load_run
from equipoise.evaluation.results import metric as known_metric
from equipoise.io.atomic import replacing
from equipoise.io.figures import png
from equipoise.io.folder_lock import only_writer
from equipoise.io.numbers import hand_over
from equipoise.io.resumable import claim
from equipoise.io.tables import make_table, print_tables
from equipoise.training.distributed.process_group import launched_processes
from equipoise.types import UserError
from equipoise.workflows.own_files import RECIPE, own_run
from equipoise.workflows.sizes import with_epochs
from equipoise.workflows.subject import names_files
from equipoise.workflows.sweep.figure import FIGURE, draw_sweep
from equipoise.workflows.sweep.grid import Trial, parse_over, trials_of
from equipoise.workflows.sweep.processes import Ended, run_trials
from equipoise.workflows.sweep.results import Results, on_test, read_results, read_trial, write_results

CLAIM, RUNS = "sweep.json", "trials"


@dataclass(frozen=True)
class SweepRequest:
    data: str  # a recipe or files
    over: Sequence[str]  # KEY=a,b,c
    out: Path
    overrides: Sequence[str] = ()
    base: str = ""  # the recipe for files
    seeds: int = 1
    jobs: int = 1
    epochs: float | None = None
    words: Sequence[str] = ()  # further words for every trial's `equipoise train`

    def __post_init__(self) -> None:
        for name in ("seeds", "jobs"):
            if getattr(self, name) < 1:
                raise UserError(f"--{name} is {getattr(self, name)}; give at least 1")

    def settings(self) -> list[str]:
        return with_epochs(self.overrides, self.epochs)

    def folder(self, trial: Trial) -> Path:
        return self.out / RUNS / trial.name

    def train(self, settings: Sequence[str], folder: Path) -> list[str]:
        """The words that train with these settings beside those of all trials."""
        base = ["--recipe", self.base] if self.base else []
        changed = [word for setting in (*self.settings(), *settings) for word in ("--set", setting)]
        return ["train", self.data, *base, *changed, *self.words, "--out", str(folder)]


def sweep(request: SweepRequest, command: str = "") -> Results:
    """Train what is missing and choose; raises UserError for settings that no trial can have, and where all failed."""
    if launched_processes() > 1:
        raise UserError("a sweep starts its trials itself, some at once with --jobs N; start it without torchrun")
    names_files(request.data)  # a name with two meanings raises UserError before all else
    over = parse_over(request.over)
    first = _loaded(request, trials_of(over, [0])).run
    trials = trials_of(over, range(first.seed, first.seed + request.seeds))
    with only_writer(request.out):
        claim(request.out, {"data": request.data, "recipe": request.base, "set": request.settings()}, CLAIM)
        results = read_results(request.out, first.training.best, trials)
        missing = results.missing()
        if len(missing) < len(trials):
            print(f"{len(trials) - len(missing)} of {len(trials)} trials are done already")
        _train(request, results, missing, command)
        write_results(request.out, results, command)
        chosen = _tell(request, results, tested=getattr(first.data, "test", True) != "")
    hand_over({**chosen, "folder": str(request.out)})
    return results


def _loaded(request: SweepRequest, trials: Sequence[Trial]) -> Loaded:
    """The run of the first trial; a mistake in the settings of any trial raises UserError before one is trained."""
    if request.base and not names_files(request.data):
        raise UserError(f"--recipe says how to train on files, and {request.data} is a recipe; leave out one of them")
    checked = trials[:1] if names_files(request.data) else trials  # of files each look costs a reading
    try:
        first, *_ = [_of_trial(request, trial) for trial in checked]
    except UserError as error:
        raise UserError(_as_written(str(error), request)) from None
    return first


def _of_trial(request: SweepRequest, trial: Trial) -> Loaded:
    settings = [*request.settings(), *_swept(trial)]
    if names_files(request.data):
        return own_run(request.data, request.base or RECIPE, settings, "divided", sized=not request.base)
    return load_run(request.data, settings)


def _as_written(fault: str, request: SweepRequest) -> str:
    """The fault of a trial's setting by the word that it was given with: settings of trials are --set to a run."""
    for key in parse_over(request.over):
        fault = fault.replace(f"--set {key}", f"--over {key}")
    return fault


def _swept(trial: Trial) -> list[str]:
    return trial.settings[:-1]  # without the seed, which the recipe may have


def _train(request: SweepRequest, results: Results, missing: Sequence[Trial], command: str) -> None:
    def words(trial: Trial) -> list[str]:
        return [*request.train(trial.settings, request.folder(trial)), "--resume"]

    running = run_trials(missing, words, request.folder, request.jobs)
    try:
        for number, ended in enumerate(running, start=1):
            _note(request, results, ended)
            write_results(request.out, results, command)
            print(f"{number} of {len(missing)}: {_told(results, ended)}", flush=True)
    except KeyboardInterrupt:
        running.close()  # type: ignore[attr-defined]
        print("The trials that ran have saved themselves; the same command goes on", flush=True)
        raise
    finally:
        running.close()  # type: ignore[attr-defined]


def _note(request: SweepRequest, results: Results, ended: Ended) -> None:
    trial, folder = ended.trial, request.folder(ended.trial)
    former = results.by_name.get(trial.name)
    seconds = round(ended.seconds + (former.seconds if former else 0), 1)
    results.by_name[trial.name] = read_trial(trial, folder, request.out, results.metric, seconds, ended.message)


def _told(results: Results, ended: Ended) -> str:
    result = results.by_name[ended.trial.name]
    about = f"{ended.trial.told}, seed {ended.trial.seed}"
    if result.validation is None:
        return f"{about}: failed: {result.message}"
    return f"{about}: {results.metric} {known_metric(results.metric).show(result.validation)}, {ended.seconds:.0f} s"


def _tell(request: SweepRequest, results: Results, *, tested: bool) -> dict[str, object]:
    """Print the table and the best; `tested`, with what the test split says of it. Raises UserError where nothing can
    be chosen."""
    print_tables(make_table(results.header(), results.rows(), text_columns=len(results.trials[0].values), bold=(0,)))
    ranked = results.ranked()
    if not ranked:
        raise UserError(f"all trials failed, the first one so: {results.failed()[0].message}")
    best, settings = ranked[0], [f"{key}={value}" for key, value in ranked[0]]
    caption = f"The best of {len(results.combinations)} combinations is {', '.join(settings)}: {results.shown(best)}."
    with replacing(request.out / FIGURE) as temporary:
        temporary.write_bytes(png(draw_sweep(results, caption), dpi=130))
    if failed := len(results.failed()):
        print(f"{failed} of {len(results.trials)} trials failed (why: trials.json); the same command tries them again")
    print(f"\n{caption} Chosen by {results.metric} on the validation split.")
    if tested:
        _tell_test(request, results, best)
    else:
        print("There is no test split of its own (data.test), so nothing unseen says how good it is")
    again = shlex.join(["equipoise", *request.train(settings, Path("runs") / "best")])
    print(f"To train so: {again}\nAll trials are in {request.out}: {RUNS}/, trials.json, table.md, {FIGURE}")
    found = results.found(best)
    return {"chosen": dict(best), "metric": results.metric, "validation": found, "failed": failed, "train": again}


def _tell_test(request: SweepRequest, results: Results, best: tuple[tuple[str, str], ...]) -> None:
    """The test split's numbers of what was chosen, which no choice has seen."""
    for trial in results.trials:
        if trial.values == best:
            for name, value in on_test(request.folder(trial), results.metric).items():
                print(f"On the test split, seed {trial.seed}: {name} {known_metric(results.metric).show(value)}")
