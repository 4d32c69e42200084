"""What a run leaves: the model, the results, the report."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch

from equipoise.citations import bibliography
from equipoise.config import Loaded, Run, dump
from equipoise.data.source import Source
from equipoise.evaluation.evaluate import EvalResult, evaluate
from equipoise.evaluation.results import TASKS, table, write_results
from equipoise.evaluation.robustness import Robustness
from equipoise.evaluation.temperature_course import course
from equipoise.finetuning.comparison import Comparison
from equipoise.models.folder import write_model
from equipoise.models.model import Model, count_parameters
from equipoise.reports.examples import gather_examples
from equipoise.reports.report import Confusion, ExampleSets, write_report
from equipoise.training.distributed.dtensors import gather_full
from equipoise.training.distributed.ranks import Ranks
from equipoise.training.loop import TrainResult
from equipoise.workflows.clean.summary import cleaning_section
from equipoise.workflows.finetune_select import SelectedWeights, write_comparison

TASK_OF = {"retrieval": TASKS[0], "matching": TASKS[0], "zero_shot": TASKS[1], "shifts": TASKS[1], "geometry": TASKS[0]}


@dataclass(frozen=True)
class RunArtifacts:
    """What is left to write when a run has been trained and evaluated. Made by all processes, written by the first."""

    loaded: Loaded
    model: Model
    outcome: TrainResult
    findings: Mapping[str, EvalResult]
    command: str
    weights: Mapping[str, torch.Tensor]
    examples: ExampleSets
    captions_cut: int
    processes: int
    comparison: Comparison | None = None  # of a run that fine-tunes

    def write(self, folder: Path) -> None:
        """The model, the results, the report."""
        run, findings, config = self.loaded.run, self.findings, dump(self.loaded.table)
        metrics = {f"{name}/{key}": value for name, found in findings.items() for key, value in found.metrics.items()}
        went = course(self.outcome.records, self.outcome.epoch)
        metrics |= went.metrics() if went else {}
        if self.comparison:
            metrics |= self.comparison.metrics()
            write_comparison(folder, self.comparison)
        write_model(self.model, folder, config, {"step": self.outcome.step, **metrics}, self.weights)
        write_findings(folder, run, run.name, findings)
        shapes = findings.get("zero_shot")
        write_report(
            folder,
            title=run.name,
            facts=self._facts(),
            table_toml=config,
            metrics=self.outcome.records,
            results={name: finding.metrics for name, finding in findings.items()},
            chance={name: finding.chance for name, finding in findings.items()},
            examples=self.examples,
            bibliography=bibliography(run),
            confusion=Confusion(shapes.confusion, shapes.classes) if shapes and shapes.confusion is not None else None,
            clamp=self.model.temperature.max_scale,
            temperature=went.sentence(self.outcome.epoch) if went else "",
            comparison=self.comparison,
            cleaning=cleaning_section(run.keep, self.outcome.seconds),
        )

    def _facts(self) -> dict[str, str]:
        run, model, outcome = self.loaded.run, self.model, self.outcome
        pairs = outcome.step * run.training.batch_size
        threads = f" ({torch.get_num_threads()} threads)" if model.device.type == "cpu" else ""
        several = f"{self.processes} processes ({run.training.parallel}), each on " if self.processes > 1 else ""
        cut = f"{self.captions_cut:,} were longer than {model.tokens.context} tokens and cut"
        return {
            "command": self.command,
            "seed": str(run.seed),
            "training": f"{outcome.step:,} steps of {run.training.batch_size} pairs in {outcome.seconds:.0f} s "
            f"({pairs / max(outcome.seconds, 1e-9):,.0f} pairs/s)",
            "model": f"{count_parameters(model):,} parameters",
            **({"captions": cut} if model.tokens.size else {}),
            "device": f"{several}{model.device.type if several else model.device}{threads}",
            "versions": f"Python {platform.python_version()}, torch {torch.__version__}",
        }


def collect_artifacts(
    loaded: Loaded,
    model: Model,
    outcome: TrainResult,
    command: str,
    source: Source,
    ranks: Ranks,
    settled: SelectedWeights | None = None,
) -> RunArtifacts:
    """Evaluate the trained model on `source`, all processes together; or take what was `settled` in its place."""
    loaded, model = (settled.loaded, settled.model) if settled else (loaded, model)
    return RunArtifacts(
        loaded,
        model,
        outcome,
        findings=settled.findings if settled else evaluate(model, source, loaded.run.evaluation),
        command=command,
        weights=gather_full(model.state_dict(), ranks),
        examples=gather_examples(model, source),
        captions_cut=ranks.total(model.tokens.truncated),
        processes=ranks.world,
        comparison=settled.comparison if settled else None,
    )


def print_findings(findings: Mapping[str, EvalResult]) -> None:
    from rich.console import Console

    console = Console()
    for name, finding in findings.items():
        console.print(table(finding.metrics, finding.chance, name.replace("_", " ")))


def print_change(change: Robustness) -> None:
    from rich.console import Console

    Console().print(change.table())


def print_comparison(comparison: Comparison) -> None:
    """Before and after, side by side."""
    from rich.console import Console
    from rich.table import Table

    console = Console()
    for data in comparison.numbers:
        rows = Table("metric", *comparison.columns(data), title=data, title_justify="left")
        for column in rows.columns[1:]:
            column.justify = "right"
        for name, values in comparison.rows(data):
            rows.add_row(name, *values)
        console.print(rows)
    for sentence in filter(None, (comparison.sentence(), comparison.left_out)):
        console.print(sentence, highlight=False, soft_wrap=True)


def write_findings(folder: Path, run: Run, model: str, findings: Mapping[str, EvalResult]) -> None:
    """JSON in CLIP_benchmark's shape, one file a protocol."""
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
