"""What a run does, from recipe to report: build, train, evaluate, write down. And loading what a run left behind."""

from __future__ import annotations

import platform
import signal
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path

import torch

from equipoise.citations import bibliography
from equipoise.config import Loaded, Run, dump, load_run, load_stored
from equipoise.data.batches import Batches
from equipoise.data.source import Source
from equipoise.data.tokens import Tokens
from equipoise.evaluation.evaluate import Finding, evaluate, validate, validation_metrics
from equipoise.evaluation.results import TASKS, table, write_results
from equipoise.files import write_text
from equipoise.models.fit import require_fit
from equipoise.models.folder import (
    CONFIG,
    WEIGHTS,
    model_folder,
    read_parts,
    read_weights,
    step_folders,
    step_number,
    write_model,
)
from equipoise.models.model import Model, count_parameters
from equipoise.reports.examples import gather_examples
from equipoise.reports.report import REPORT, Confusion, write_report
from equipoise.training.lock import locked
from equipoise.training.loop import Outcome, train
from equipoise.training.place import holds_run, require_new, require_same
from equipoise.training.progress import Progress
from equipoise.types import UserError

RUNS = Path("runs")
CAPTIONS_FOR_TOKENS = 50_000  # enough to learn a vocabulary from
TASK_OF = {"retrieval": TASKS[0], "matching": TASKS[0], "zero_shot": TASKS[1]}


def load(path: str | Path) -> Model:
    """The model of a folder that a run wrote, ready to encode: `eq.load("runs/demo")`."""
    folder = model_folder(Path(path))
    tokens, preprocess = read_parts(folder)
    run = load_stored(folder / CONFIG).run
    if preprocess.to_json() != run.preprocess.to_json():
        raise UserError(f"{folder}: preprocess.json and the preprocess table of config.toml disagree; mend one of them")
    model = build_model(run, tokens)
    read_weights(model, folder / WEIGHTS)
    return model.eval()


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
    )


def run_recipe(recipe: str, overrides: Sequence[str], out: Path | None, command: str, resume: bool = False) -> int:
    """Carry out a recipe; with `resume`, go on with the run that `out` holds, if it holds one."""
    loaded = load_run(recipe, overrides)
    folder = (out or RUNS / loaded.run.name) if resume else _new_folder(loaded.run.name, out)
    return carry_out(loaded, folder, command, resume)


def resume_folder(folder: Path, overrides: Sequence[str], command: str) -> int:
    """Go on with the run in `folder`, by the settings stored there."""
    if not (folder / CONFIG).is_file():
        raise UserError(f"{folder} holds no run to resume: there is no {CONFIG} in it; check the path")
    return carry_out(load_stored(folder / CONFIG, overrides), folder, command, resume=True)


def carry_out(loaded: Loaded, folder: Path, command: str, resume: bool = False) -> int:
    """Train, evaluate and report; 0 at the end, 128 + its number if a signal ended the run before."""
    with locked(folder):
        if resume and holds_run(folder):
            require_same(folder, load_stored(folder / CONFIG).table, loaded.table)
        else:
            require_new(folder)
        if _is_finished(folder, loaded.run.training.steps):
            print(f"The run in {folder} is finished; raise training.steps to train on")
            return 0
        model, outcome = train_run(loaded, folder)
        if outcome.signal:
            name = signal.Signals(outcome.signal).name
            print(f"Stopped by {name} after step {outcome.step}; go on with: equipoise train --resume {folder}")
            return 128 + outcome.signal
        try:
            findings = evaluate(model, loaded.run.data.build("test"), loaded.run.evaluation)
            write_down(loaded, folder, model, outcome, findings, command)
        except KeyboardInterrupt:
            print(
                f"Stopped after step {outcome.step}, before the report; go on with: equipoise train --resume {folder}"
            )
            return 128 + signal.SIGINT
    print_findings(findings)
    print(f"\nThe report is {folder / REPORT}; the model is {folder}")
    return 0


def train_run(loaded: Loaded, folder: Path) -> tuple[Model, Outcome]:
    """The model a recipe describes, trained; metrics and checkpoints in `folder`, whose newest one is gone on from."""
    run = loaded.run
    source = run.data.build("train")
    checkpoints = step_folders(folder)
    torch.manual_seed(run.seed)
    tokens = read_parts(checkpoints[-1])[0] if checkpoints else _new_tokens(run, source)
    model = build_model(run, tokens)
    require_fit(model, source)
    if not checkpoints:
        model.load_pretrained()
    device = run.training.torch_device()
    batches = Batches(
        source,
        tokens,
        run.preprocess,
        batch_size=run.training.batch_size,
        seed=run.seed,
        device=device,
        workers=run.training.workers,
        timeout=run.training.loader_timeout,
    )
    validation = run.data.build("validation")
    _require_metric(run.training.best, validation_metrics(validation))
    if checkpoints:
        print(f"Going on from {checkpoints[-1]}", flush=True)
    (folder / REPORT).unlink(missing_ok=True)  # of a shorter run that is trained on
    write_text(folder / CONFIG, dump(loaded.table))
    outcome = train(
        model,
        run.objective,
        batches,
        run.training,
        folder=folder,
        config=dump(loaded.table),
        evaluate=lambda model: validate(model, validation, run.evaluation),
        resume=bool(checkpoints),
    )
    return model, outcome


def evaluate_folder(path: Path, data: str | None, overrides: Sequence[str], split: str, out: Path | None) -> None:
    """Evaluate a model folder on its own data or a recipe's; print, and write JSON where asked."""
    model = load(path)
    stored = model_folder(path) / CONFIG
    run = (load_run(data, overrides) if data else load_stored(stored, overrides)).run
    findings = evaluate(model, run.data.build(split), run.evaluation)
    print_findings(findings)
    if out is not None:
        _write_results(out, run, str(path), findings)
        print(f"\nThe results are in {out}")


def write_down(
    loaded: Loaded, folder: Path, model: Model, outcome: Outcome, findings: Mapping[str, Finding], command: str
) -> None:
    """What a run leaves: the model, the results, the report."""
    run = loaded.run
    metrics = {f"{name}/{key}": value for name, finding in findings.items() for key, value in finding.metrics.items()}
    write_model(model, folder, dump(loaded.table), {"step": outcome.step, **metrics})
    _write_results(folder, run, run.name, findings)
    shapes = findings.get("zero_shot")
    write_report(
        folder,
        title=run.name,
        facts=_facts(run, model, outcome, command),
        table_toml=dump(loaded.table),
        metrics=outcome.records,
        results={name: finding.metrics for name, finding in findings.items()},
        chance={name: finding.chance for name, finding in findings.items()},
        examples=gather_examples(model, run.data.build("test")),
        bibliography=bibliography(run),
        confusion=Confusion(shapes.confusion, shapes.classes) if shapes and shapes.confusion is not None else None,
        clamp=run.temperature.max_scale,
    )


def print_findings(findings: Mapping[str, Finding]) -> None:
    from rich.console import Console

    console = Console()
    for name, finding in findings.items():
        console.print(table(finding.metrics, finding.chance, name.replace("_", " ")))


def preview(recipe: str, overrides: Sequence[str], split: str, count: int, size: int, out: Path) -> None:
    """Write a contact sheet of a recipe's data."""
    from equipoise.data.sheet import contact_sheet

    if count < 1 or size < 1:
        raise UserError(f"a contact sheet needs at least 1 scene and 1 pixel, not --count {count} and --size {size}")
    source = load_run(recipe, overrides).run.data.build(split)
    chosen = range(min(count, len(source)))
    contact_sheet(source.images(chosen, size), [list(source.pair(index).captions) for index in chosen], out)
    print(f"{len(chosen)} pictures with their captions are in {out}")


def write_data(recipe: str, overrides: Sequence[str], split: str, size: int, per_shard: int, folder: Path) -> None:
    """Write a recipe's data as WebDataset shards."""
    from equipoise.data.shards import write_shards

    source = load_run(recipe, overrides).run.data.build(split)
    with Progress(len(source), "writing") as progress:
        shards = write_shards(source, folder, size, per_shard, lambda done, _: progress.update(done))
    print(f"{len(source):,} pairs are in {len(shards)} shards in {folder}")


def _write_results(folder: Path, run: Run, model: str, findings: Mapping[str, Finding]) -> None:
    for name, finding in findings.items():
        write_results(
            folder / "results" / f"{name}.json",
            dataset=type(run.data).__qualname__.split(".")[0].lower(),
            model=model,
            pretrained="",
            task=TASK_OF[name],
            metrics=finding.metrics,
            extras={"chance": finding.chance, "protocol": name, "seed": run.seed},
        )


def _facts(run: Run, model: Model, outcome: Outcome, command: str) -> dict[str, str]:
    pairs = outcome.step * run.training.batch_size
    return {
        "command": command,
        "seed": str(run.seed),
        "training": f"{outcome.step:,} steps of {run.training.batch_size} pairs in {outcome.seconds:.0f} s "
        f"({pairs / max(outcome.seconds, 1e-9):,.0f} pairs/s)",
        "model": f"{count_parameters(model):,} parameters",
        **({"captions": _cut(model.tokens)} if model.tokens.size else {}),
        "device": f"{model.device} ({torch.get_num_threads()} threads)"
        if model.device.type == "cpu"
        else str(model.device),
        "versions": f"Python {platform.python_version()}, torch {torch.__version__}",
    }


def _cut(tokens: Tokens) -> str:
    return f"{tokens.truncated:,} were longer than {tokens.context} tokens and cut"


def _require_metric(name: str, known: Sequence[str]) -> None:
    """Before training: a wrong name must not cost the steps up to the first evaluation."""
    if name not in known:
        raise UserError(f'training.best = "{name}" is not a metric of the validation data; choose {", ".join(known)}')


def _new_tokens(run: Run, source: Source) -> Tokens:
    captions = (caption for index in range(len(source)) for caption in source.pair(index).captions)
    return Tokens.from_config(run.tokens, islice(captions, CAPTIONS_FOR_TOKENS))


def _new_folder(name: str, out: Path | None) -> Path:
    """The folder asked for, or a new one under runs/."""
    candidates = [RUNS / name, *(RUNS / f"{name}-{number}" for number in range(2, 10_000))]
    return out or next(folder for folder in candidates if not folder.exists())


def _is_finished(folder: Path, steps: int) -> bool:
    checkpoints = step_folders(folder)
    return (folder / REPORT).exists() and bool(checkpoints) and step_number(checkpoints[-1]) >= steps
