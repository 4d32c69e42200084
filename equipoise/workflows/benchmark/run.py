"""Models times sets: each cell is computed once, written as JSON, and found again when the same is asked."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from equipoise import __version__
from equipoise.data.benchmark_sets import SetSpec
from equipoise.data.benchmark_sets.class_parts import class_parts
from equipoise.data.benchmark_sets.find import Found, find_place, missing, read_set
from equipoise.data.benchmark_sets.set_spec import ZERO_SHOT
from equipoise.evaluation.metrics import percent
from equipoise.evaluation.results import results
from equipoise.interop.hub import fetch_data
from equipoise.io.atomic import write_text
from equipoise.io.json_files import read_json_table
from equipoise.io.numbers import hand_over
from equipoise.io.tables import make_table, print_tables
from equipoise.reports.benchmark_page import Cell, ShiftTable, write_benchmark
from equipoise.training.device import torch_device
from equipoise.training.distributed.process_group import process_group
from equipoise.training.distributed.ranks import Ranks
from equipoise.training.distributed.wrap import device_of_rank
from equipoise.types import UserError
from equipoise.workflows.benchmark.embedder import Embedder, find_embedder
from equipoise.workflows.benchmark.features import CachedFeatures, digest
from equipoise.workflows.benchmark.protocols import CellResult, content_of, evaluate_set
from equipoise.workflows.benchmark.robustness import Robustness, read_baselines, robustness
from equipoise.workflows.benchmark.suite import read_suite

PROTOCOL = "2"  # of the numbers: a change of it computes all cells anew
CELLS, FEATURES, PAGE, ALL = "cells", "features", "benchmark.html", "benchmark.json"
ROBUSTNESS = "robustness.json"


@dataclass(frozen=True)
class BenchmarkRequest:
    models: tuple[str, ...]
    suite: str
    root: Path
    out: Path
    only: tuple[str, ...] = ()  # of the suite's sets
    skip_missing: bool = False
    download: bool = False
    device: str = "auto"
    baselines: tuple[str, ...] = ()  # of the models, or CSV files: what effective robustness is measured above


def run_benchmark(request: BenchmarkRequest) -> list[dict[str, Any]]:
    """Evaluate, print, hand over, and write JSON and a page; returns the cells in CLIP_benchmark's shape."""
    if not request.models:
        raise UserError("name a model to benchmark, or --list to see the sets")
    if twice := next((model for model in request.models if request.models.count(model) > 1), None):
        raise UserError(f"{twice} is named twice; name different models")
    baselines, published = read_baselines(request.baselines, request.models)
    with process_group() as ranks:
        specs = _chosen(request)
        sets = ranks.on_main(lambda: _available(request, specs)) and _available(request, specs)
        specs = {name: spec for name, (spec, _) in sets.items()}
        if request.baselines and not any(spec.shift_of in specs for spec in specs.values()):
            raise UserError("--baseline needs a set and a shift of it (shift_of); no two such are here: leave it out")
        labels = _labels(request.models)
        cells: list[dict[str, Any]] = []
        for model in request.models:
            embedder = find_embedder(
                model, device_of_rank(torch_device(request.device), ranks), ranks, request.download
            )
            cells += _row(embedder, labels[model], sets, request, ranks)
        # by every rank, so that none waits for one that found a mistake
        shifted = robustness(cells, specs, list(labels.values()), [labels[word] for word in baselines], published)
        if ranks.is_main:
            _report(cells, sets, list(labels.values()), shifted, request.out)
        ranks.barrier()
    return cells


def _chosen(request: BenchmarkRequest) -> dict[str, SetSpec]:
    specs = read_suite(request.suite)
    if strange := next((name for name in request.only if name not in specs), None):
        raise UserError(f'"{strange}" is not in the suite {request.suite}: {", ".join(specs)}')
    return {name: spec for name, spec in specs.items() if not request.only or name in request.only}


def _available(request: BenchmarkRequest, specs: Mapping[str, SetSpec]) -> dict[str, tuple[SetSpec, Found]]:
    """The sets, each read; those that are missing are fetched, skipped or an error."""
    if not request.root.is_dir():
        raise UserError(f"{request.root}: there is no such folder; --data names the one that sets lie in")
    sets = {}
    for name, spec in specs.items():
        if find_place(name, spec, request.root) is None and request.download and spec.hub:
            fetch_data(spec.hub, request.root / spec.folders[-1])
        if find_place(name, spec, request.root) is None and request.skip_missing:
            warnings.warn(f"left out: {missing(name, spec, request.root)}", stacklevel=2)
            continue
        sets[name] = (spec, read_set(name, spec, request.root))
    if not sets:
        raise UserError(f"none of the sets is in {request.root}; --list says what each needs and where it must lie")
    return sets


def _row(
    embedder: Embedder, label: str, sets: Mapping[str, tuple[SetSpec, Found]], request: BenchmarkRequest, ranks: Ranks
) -> list[dict[str, Any]]:
    """The cells of one model."""
    model = embedder.digest()
    features = CachedFeatures(embedder, model, request.out / FEATURES, ranks)
    parts = class_parts(
        {name: spec for name, (spec, _) in sets.items()}, {name: found for name, (_, found) in sets.items()}
    )
    cells = []
    for name, (spec, found) in sets.items():
        some = parts.get(name, {})
        key = digest((PROTOCOL, model, content_of(found, spec, some)))
        file = request.out / CELLS / f"{_file_name(label)}--{_file_name(name)}.json"
        known = _stored(file, key)
        if ranks.total(int(known is not None)) == ranks.world and known is not None:
            cells.append(known)
            continue
        measured = evaluate_set(features, found, spec, some)
        if spec.metric not in measured.metrics:
            raise UserError(f"{name}: there is no {spec.metric} to read; it has {', '.join(measured.metrics)}")
        cell = _as_json(measured, name, spec, embedder, label, key)
        if ranks.is_main:
            write_text(file, json.dumps(cell, indent=2, ensure_ascii=False, allow_nan=False) + "\n")
        cells.append(cell)
    return cells


def _stored(file: Path, key: str) -> dict[str, Any] | None:
    """A cell that was computed of the same model and data; None for any other."""
    try:
        cell = read_json_table(file) if file.is_file() else {}
    except UserError:
        return None
    return cell if cell.get("equipoise", {}).get("key") == key else None


def _as_json(found: CellResult, name: str, spec: SetSpec, embedder: Embedder, label: str, key: str) -> dict[str, Any]:
    task = "zeroshot_classification" if spec.task == ZERO_SHOT else "zeroshot_retrieval"
    extras = {
        "chance": found.chance, "intervals": {name: list(ends) for name, ends in found.intervals.items()},
        "protocol": spec.task, "main": spec.metric, "label": label, "key": key, "version": __version__, **found.notes,
    }  # fmt: skip
    return results(
        dataset=name, model=embedder.name, pretrained=embedder.pretrained, task=task, metrics=found.metrics,
        extras=extras,
    )  # fmt: skip


def _report(
    cells: Sequence[dict[str, Any]],
    sets: Mapping[str, tuple[SetSpec, Found]],
    labels: Sequence[str],
    shifted: Sequence[Robustness],
    out: Path,
) -> None:
    write_text(out / ALL, json.dumps(list(cells), indent=2, ensure_ascii=False, allow_nan=False) + "\n")
    table = {(cell["dataset"], cell["equipoise"]["label"]): _cell(cell) for cell in cells}
    rows = [(name, spec.metric, *(table[name, label].shown for label in labels)) for name, (spec, _) in sets.items()]
    averages = _averages(table, sets, labels)
    rows += [(f"mean of {task}", "", *(percent(value) for value in values)) for task, values in averages.items()]
    print_tables(make_table(("set", "metric", *labels), rows, title="benchmark", text_columns=2))
    for one in shifted:
        print_tables(make_table(one.columns(), one.rows(), title=f"accuracy on {one.of} and its shifts"))
    tasks = {name: spec.task for name, (spec, _) in sets.items()}
    page = write_benchmark(out / PAGE, labels, tasks, table, averages, [_shown(one) for one in shifted])
    found = [one.as_json() for one in shifted]
    if found:
        write_text(out / ROBUSTNESS, json.dumps(found, indent=2, ensure_ascii=False, allow_nan=False) + "\n")
    hand_over({"cells": list(cells), "averages": averages, "robustness": found, "page": str(page)})
    print(f"\nThe page is {page}; the numbers are in {out / ALL}, a file for each cell in {out / CELLS}")


def _shown(one: Robustness) -> ShiftTable:
    fits = [f"{name}: R² = {line.fit:.2f} of {line.models} baselines" for name, line in one.lines.items()]
    return ShiftTable(one.of, one.columns(), one.rows(), "; ".join(fits), one.clouds())


def _cell(cell: dict[str, Any]) -> Cell:
    about = cell["equipoise"]
    return Cell(cell["metrics"], about["intervals"], about["chance"], about["main"])


def _averages(
    table: Mapping[tuple[str, str], Cell], sets: Mapping[str, tuple[SetSpec, Found]], labels: Sequence[str]
) -> dict[str, list[float]]:
    """The mean of the sets' main metrics, by task, for each model; of two sets at least."""
    averages = {}
    for task in dict.fromkeys(spec.task for spec, _ in sets.values()):
        names = [name for name, (spec, _) in sets.items() if spec.task == task]
        if len(names) > 1:
            averages[task] = [sum(table[name, label].value for name in names) / len(names) for label in labels]
    return averages


def _labels(models: Sequence[str]) -> dict[str, str]:
    """Short names of models, different ones."""
    short = {model: Path(model).name or model for model in models}
    return {model: name if list(short.values()).count(name) == 1 else model.strip("/") for model, name in short.items()}


def _file_name(name: str) -> str:
    return re.sub(r"[^\w.-]+", "-", name).strip("-.") or "model"
