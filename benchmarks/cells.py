"""An experiment as cells: one recipe with some settings and one seed each.

A cell that has been trained leaves a JSON file and is not trained again, so the same command goes on where it was
stopped. Seeds are the outer loop: what is there after half of the time is a complete table with fewer seeds. Claims of
papers with rules and verdicts are `equipoise claims`, of which this borrows what runs and measures cells.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import mean
from tempfile import TemporaryDirectory

import torch

from equipoise.config import Run, load_run
from equipoise.io.atomic import write_text
from equipoise.models.model import Model
from equipoise.workflows import train_run
from equipoise.workflows.claims.measure import final_scale, numbers
from equipoise.workflows.claims.pool import side_by_side

RECALL = {"R@1 image → text": "retrieval/image_to_text_R@1", "R@1 text → image": "retrieval/text_to_image_R@1"}
PRECISION = {
    "mAP@R image → text": "matching/image_to_text_mAP@R",
    "mAP@R text → image": "matching/text_to_image_mAP@R",
}
ZERO_SHOT = {"zero-shot": "zero_shot/acc1"}
# digits of what is no share; by the first part of a name
AS_THEY_ARE = {"t": 2, "count": 1, "as": 2, "auroc": 3, "seconds": 0}
SEED = "seed"  # of a cell, among what it found
Found = Mapping[str, float]
Judge = Callable[[Model, Run], dict[str, float]]
Work = Callable[..., str]  # a row, a seed, further settings and a file to write what was found to; tells what it did


@dataclass(frozen=True)
class Row:
    """What is compared with the other rows."""

    name: str
    recipe: str
    settings: tuple[str, ...] = ()


def add_options(parser: argparse.ArgumentParser, needs_folder: bool = True) -> None:
    parser.add_argument("--out", type=Path, required=needs_folder, help="folder for the cells")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=1, help="cells trained at once, on one core each")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a further setting for all")
    parser.add_argument("--rows", nargs="+", metavar="NAME", help="these rows alone")
    parser.add_argument("--report", action="store_true", help="train nothing; print what is there")


def on_validation(model: Model, run: Run) -> dict[str, float]:
    return numbers(model, run, "validation")


def run(
    rows: Sequence[Row], options: argparse.Namespace, judge: Judge = on_validation, work: Work | None = None
) -> dict[str, list[dict[str, float]]]:
    """What every row reaches, by its name, one entry a seed that is done, with its `SEED`; `work` does something else
    than training."""
    work = work or partial(measure, judge=judge)
    rows = chosen(rows, options.rows)
    cells = [(row, seed) for seed, row in itertools.product(range(options.seeds), rows)]
    files = [options.out / cell_name(row.name, seed) for row, seed in cells]
    options.out.mkdir(parents=True, exist_ok=True)
    if not options.report:
        missing = [(*cell, file) for cell, file in zip(cells, files, strict=True) if not file.exists()]
        calls = [partial(_outcome, work, row, seed, options.set, file) for row, seed, file in missing]
        for number, (_, told) in enumerate(side_by_side(calls, options.jobs), start=1):
            print(f"{number} of {len(missing)}: {told}", flush=True)
    found: dict[str, list[dict[str, float]]] = {row.name: [] for row in rows}
    for (row, seed), file in zip(cells, files, strict=True):
        if file.exists():
            found[row.name].append({**json.loads(file.read_text())["found"], SEED: seed})
    return found


def paired(results: Sequence[Found], others: Sequence[Found]) -> list[tuple[Found, Found]]:
    """What two rows reach from the same seeds, those that both have."""
    by_seed = {other[SEED]: other for other in others}
    return [(result, by_seed[result[SEED]]) for result in results if result[SEED] in by_seed]


def _outcome(work: Work, row: Row, seed: int, extra: Sequence[str], file: Path) -> str:
    """What a cell did. One that failed (want of memory, say) is told, and the others go on; the same command tries it
    again."""
    try:
        return work(row, seed, extra, file)
    except Exception as error:
        return f"{row.name}, seed {seed}, FAILED: {type(error).__name__}: {str(error)[:300]}"


def chosen(rows: Sequence[Row], names: Sequence[str] | None) -> Sequence[Row]:
    known = {row.name: row for row in rows}
    if unknown := set(names or ()) - set(known):
        raise SystemExit(f"there is no row {', '.join(sorted(unknown))}; there are: {'; '.join(known)}")
    return [known[name] for name in names] if names else rows


def measure(row: Row, seed: int, extra: Sequence[str], file: Path, judge: Judge = on_validation) -> str:
    """Train a cell, judge it, write down what it gives."""
    torch.set_num_threads(1)
    settings = [*row.settings, *extra, f"seed={seed}"]
    loaded = load_run(row.recipe, settings)
    start = time.perf_counter()
    with TemporaryDirectory() as place:
        model, outcome = train_run(loaded, Path(place))
    if outcome.signal:  # half a run is no cell
        raise SystemExit(128 + outcome.signal)
    seconds = time.perf_counter() - start
    found = judge(model, loaded.run) | final_scale(outcome)
    about = {"recipe": row.recipe, "settings": settings, "seconds": seconds}
    write_text(file, json.dumps({**about, "found": found}, indent=1) + "\n")
    return f"{file.stem}, {seconds:.0f} s"


def table(found: Mapping[str, Sequence[Found]], columns: Mapping[str, str]) -> str:
    """Markdown: the mean over seeds, the lowest and the highest in brackets; shares in percent. Rows of fewer seeds
    than others say so."""
    seeds = max(len(results) for results in found.values())
    lines = [f"| mean of {seeds} (lowest–highest) | " + " | ".join(columns) + " |", "|---|" + "---:|" * len(columns)]
    for name, results in found.items():
        fewer = f" (mean of {len(results)})" if 0 < len(results) < seeds else ""
        lines.append(f"| {name}{fewer} | " + " | ".join(_cell(results, key) for key in columns.values()) + " |")
    return "\n".join(lines)


def _cell(results: Sequence[Found], key: str) -> str:
    digits = AS_THEY_ARE.get(key.partition("/")[0])
    factor, digits = (100, 1) if digits is None else (1, digits)
    values = [factor * result[key] for result in results if key in result]
    if not values:
        return "-"
    return f"{mean(values):.{digits}f} ({min(values):.{digits}f}–{max(values):.{digits}f})"


def cell_name(row: str, seed: int) -> str:
    return "".join(letter if letter.isalnum() or letter == "." else "-" for letter in row) + f"-{seed}.json"
