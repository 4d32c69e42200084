"""The artifacts of a run: the model, the results, the report."""

from __future__ import annotations

import platform
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from equipoise.citations import bibliography
from equipoise.config import Loaded, Run, dump
from equipoise.data.source import Source, has_modalities
from equipoise.evaluation import EVALUATIONS
from equipoise.evaluation.evaluate import evaluate_encoded, to_encode
from equipoise.evaluation.evaluator import EvalResult
from equipoise.evaluation.logit_scale import logit_scale_course
from equipoise.evaluation.mix_course import mix_course
from equipoise.evaluation.results import table, write_results
from equipoise.finetuning.comparison import Comparison
from equipoise.io.atomic import clear_leftovers
from equipoise.io.numbers import hand_over
from equipoise.io.tables import make_table, print_tables
from equipoise.models.folder import write_model
from equipoise.models.model import Model, count_parameters
from equipoise.reports.captions import WrittenCaption, gather_captions
from equipoise.reports.examples import gather_examples
from equipoise.reports.figures import write_figures
from equipoise.reports.held_out import held_out
from equipoise.reports.report import Confusion, ExampleSets, write_report
from equipoise.reports.space_charts import SpaceData, gather_modal_space, gather_space
from equipoise.training.distributed.dtensors import gather_full
from equipoise.training.distributed.ranks import Ranks
from equipoise.training.distributed.sharded_encoding import sharded_encoding
from equipoise.training.loop import TrainResult
from equipoise.workflows.clean.baseline import bought, on_all
from equipoise.workflows.clean.by_hand import by_hand
from equipoise.workflows.clean.summary import cleaning_section
from equipoise.workflows.clean.training import FOLDER
from equipoise.workflows.clean.undecided import undecided_section
from equipoise.workflows.finetune_select import SelectedWeights, write_comparison

if TYPE_CHECKING:
    from rich.table import Table


@dataclass(frozen=True)
class RunArtifacts:
    """Everything that is written when a run has been trained and evaluated; made by all ranks, written by the first."""

    loaded: Loaded
    model: Model
    outcome: TrainResult
    findings: Mapping[str, EvalResult]
    command: str
    weights: Mapping[str, torch.Tensor]
    examples: ExampleSets
    space: SpaceData
    processes: int
    comparison: Comparison | None = None  # of a run that fine-tunes
    captions: Sequence[WrittenCaption] = ()  # that the model wrote

    def write(self, folder: Path) -> None:
        """Write the model, the results and the report."""
        run, findings, config = self.loaded.run, self.findings, dump(self.loaded.table)
        metrics = dict(self.metrics)
        course = logit_scale_course(self.outcome.records, self.outcome.epoch)
        metrics |= course.metrics() if course else {}
        mixed = mix_course(self.outcome.records)
        metrics |= mixed.metrics() if mixed else {}
        for sentence in mixed.warnings() if mixed else ():
            warnings.warn(sentence, stacklevel=2)
        if self.comparison:
            metrics |= self.comparison.metrics()
            write_comparison(folder, self.comparison)
        write_model(self.model, folder, config, {"step": self.outcome.step, **metrics}, self.weights)
        clear_leftovers(folder / "results")  # of a kill at this very place; the run's folder is ours alone
        write_findings(folder, run, run.name, findings)
        write_figures(folder, findings, self._facts(), on_all(folder))
        cleaning = self.outcome.seconds, bought(folder, self.metrics)
        shapes, decide = findings.get("zero_shot"), by_hand(run.keep, folder, self.model)
        write_report(
            folder,
            title=run.name,
            facts=self._facts(),
            table_toml=config,
            metrics=self.outcome.records,
            results={name: finding.metrics for name, finding in findings.items()},
            chance={name: finding.chance for name, finding in findings.items()},
            examples=self.examples,
            space=self.space.charts(),
            captions=self.captions,
            bibliography=bibliography(run),
            confusion=Confusion(shapes.confusion, shapes.classes) if shapes and shapes.confusion is not None else None,
            clamp=self.model.temperature.max_scale,
            course=course.sentence(self.outcome.epoch) if course else "",
            comparison=self.comparison,
            cleaning=cleaning_section(run.keep, *cleaning, decide)
            or undecided_section(run.clean, folder / FOLDER, *cleaning),
        )

    @property
    def metrics(self) -> dict[str, float]:
        """What the evaluations found, by their name and the metric's."""
        return {f"{name}/{key}": value for name, found in self.findings.items() for key, value in found.metrics.items()}

    def _facts(self) -> dict[str, str]:
        run, model, outcome = self.loaded.run, self.model, self.outcome
        pairs = outcome.step * run.training.batch_size
        threads = f" ({torch.get_num_threads()} threads)" if model.device.type == "cpu" else ""
        several = f"{self.processes} processes ({run.training.parallel}), each on " if self.processes > 1 else ""
        cut = f"{outcome.captions_cut:,} were longer than {model.tokens.context} tokens and cut"
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
    selected: SelectedWeights | None = None,
) -> RunArtifacts:
    """Evaluate the trained model on `source`, on all ranks together; or take the weights that fine-tuning selected."""
    loaded, model = (selected.loaded, selected.model) if selected else (loaded, model)
    settings = loaded.run.evaluation
    with sharded_encoding(model, ranks):
        encoded = to_encode(model, source, settings)
        findings = selected.findings if selected else evaluate_encoded(encoded)
        shown = held_out(encoded)
        examples = gather_examples(shown) if shown else ExampleSets()
        space = gather_space(shown, settings.map) if shown else SpaceData()
        if has_modalities(source):
            space = gather_modal_space(encoded)
        captions = gather_captions(encoded)
    return RunArtifacts(
        loaded,
        model,
        outcome,
        findings=findings,
        command=command,
        weights=gather_full(model.state_dict(), ranks),
        examples=examples,
        space=space,
        processes=ranks.world,
        comparison=selected.comparison if selected else None,
        captions=captions,
    )


def print_findings(findings: Mapping[str, EvalResult]) -> None:
    print_tables(*(_shown(name, one) for name, one in findings.items()))
    for name, one in findings.items():
        if said := _said_of(one.notes):
            print(f"{name.replace('_', ' ')}: {said}")
    hand_over({"results": {name: {"metrics": one.metrics, "chance": one.chance} for name, one in findings.items()}})


def _shown(name: str, found: EvalResult) -> Table:
    """The numbers of an evaluation as the terminal shows them."""
    own = EVALUATIONS[name].table(found.metrics)
    if own is not None:
        return make_table(own[0], own[1], title=name.replace("_", " "))
    return table(found.metrics, found.chance, name.replace("_", " "))


def _said_of(notes: Mapping[str, int | str]) -> str:
    """What was ranked, in words."""
    captions, folds = notes.get("captions_per_image"), notes.get("folds", 1)
    said = [] if captions is None else [f"{captions} caption{'s' * (captions != '1')} per image (evaluation.captions)"]
    return ", ".join([*said, *([f"mean of {folds} folds"] if folds != 1 else [])])


def print_comparison(comparison: Comparison) -> None:
    """Print the numbers before and after fine-tuning, side by side."""
    from rich.console import Console

    hand_over({"comparison": comparison.to_json()})
    for data in comparison.numbers:
        rows = [(name, *values) for name, values in comparison.rows(data)]
        print_tables(make_table(("metric", *comparison.columns(data)), rows, title=data))
    for sentence in filter(None, (comparison.sentence(), comparison.left_out)):
        Console().print(sentence, highlight=False, soft_wrap=True)


def write_findings(folder: Path, run: Run, model: str, findings: Mapping[str, EvalResult]) -> None:
    """Write JSON in CLIP_benchmark's shape, one file per protocol."""
    for name, finding in findings.items():
        write_results(
            folder / "results" / f"{name}.json",
            dataset=type(run.data).__qualname__.split(".")[0].lower(),
            model=model,
            pretrained="",
            task=EVALUATIONS[name].task,
            metrics=finding.metrics,
            extras={"chance": finding.chance, "protocol": name, "seed": run.seed, **finding.notes},
        )
