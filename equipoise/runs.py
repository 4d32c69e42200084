"""What a run does, from recipe to report: build, train, evaluate, write down. And loading what a run left behind."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
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
from equipoise.models.folder import CONFIG, WEIGHTS, model_folder, read_parts, read_weights, write_model
from equipoise.models.model import Model, count_parameters
from equipoise.reports.examples import gather_examples
from equipoise.reports.report import Confusion, write_report
from equipoise.training.loop import Outcome, train
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
    )


def run_recipe(recipe: str, overrides: Sequence[str], out: Path | None, command: str) -> bool:
    """Train, evaluate and report; whether the run came to its end (it did not if it was interrupted)."""
    loaded = load_run(recipe, overrides)
    folder = _new_folder(loaded.run.name, out)
    model, outcome = train_run(loaded, folder)
    with suppress(KeyboardInterrupt):  # Ctrl-C after training loses no weights either
        if not outcome.interrupted:
            findings = evaluate(model, loaded.run.data.build("test"), loaded.run.evaluation)
            write_down(loaded, folder, model, outcome, findings, command)
            print_findings(findings)
            print(f"\nThe report is {folder / 'report.html'}; the model is {folder}")
            return True
    print(f"Stopped at step {outcome.step}; the model so far is in {folder / 'checkpoints' / 'last'}")
    return False


def train_run(loaded: Loaded, folder: Path) -> tuple[Model, Outcome]:
    """The model a recipe describes, trained; metrics and checkpoints in `folder`."""
    run = loaded.run
    source = run.data.build("train")
    torch.manual_seed(run.seed)
    tokens = Tokens.from_config(run.tokens, islice(_all_captions(source), CAPTIONS_FOR_TOKENS))
    model = build_model(run, tokens)
    device = run.training.torch_device()
    batches = Batches(source, tokens, run.preprocess, batch_size=run.training.batch_size, seed=run.seed, device=device)
    validation = run.data.build("validation")
    _require_metric(run.training.best, validation_metrics(validation))
    outcome = train(
        model,
        run.objective,
        batches,
        run.training,
        folder=folder,
        config=dump(loaded.table),
        evaluate=lambda model: validate(model, validation, run.evaluation),
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
        "captions": f"{model.tokens.truncated:,} were longer than {model.tokens.context} tokens and cut",
        "device": f"{model.device} ({torch.get_num_threads()} threads)"
        if model.device.type == "cpu"
        else str(model.device),
        "versions": f"Python {platform.python_version()}, torch {torch.__version__}",
    }


def _require_metric(name: str, known: Sequence[str]) -> None:
    """Before training: a wrong name must not cost the steps up to the first evaluation."""
    if name not in known:
        raise UserError(f'training.best = "{name}" is not a metric of the validation data; choose {", ".join(known)}')


def _all_captions(source: Source) -> Iterator[str]:
    return (caption for index in range(len(source)) for caption in source.pair(index).captions)


def _new_folder(name: str, out: Path | None) -> Path:
    """The folder asked for, if it holds no run yet; otherwise a new one under runs/."""
    if out is not None:
        if (out / CONFIG).exists() or (out / "metrics.jsonl").exists():
            raise UserError(f"{out} already holds a run; choose another folder with --out, or remove it")
        return out
    candidates = [RUNS / name, *(RUNS / f"{name}-{number}" for number in range(2, 10_000))]
    return next(folder for folder in candidates if not folder.exists())
