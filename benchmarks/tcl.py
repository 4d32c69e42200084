"""TCL beside CLIP with the same towers, on photographs in shards and from scratch.

    python benchmarks/tcl.py --out FOLDER --jobs 12 --set data.root=SHARDS --set data.train='train-{000..004}.tar' \\
           --set data.validation=train-006.tar --set data.test=dev-000.tar               # COCO's or Flickr8k's shards

Every row is trained at three learning rates. Two seeds on validation data choose the rate of a row (mean recall, of two
stages where there is a matching head), and all seeds on test data are reported at that rate. Rows of one seed share
their data; differences to CLIP are paired by seed, with a bootstrap interval. On scenes the same question is the claim
`tcl-beats-clip` (docs/claims.md).
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from statistics import mean

from cells import Row, add_options, numbers, run, table

from equipoise.claims.interval import mean_interval
from equipoise.config import Run
from equipoise.models.model import Model

RECIPE = "tcl-flickr8k"
BASE = "CLIP"
ROWS = {BASE: ("objective.name=clip", "training.ema=0"), "TCL": ()}
RATES = (5e-4, 1e-3, 2e-3)
LENGTH = ("training.steps=1500", "training.warmup_steps=100", "training.evaluate_every=1500", "temperature.speed=10")
CHOOSING = 2  # seeds
COLUMNS = {
    "R@1 image → text": "image_to_text_R@1",
    "R@1 text → image": "text_to_image_R@1",
    "mean recall": "mean_recall",
}
STAGES = {"by points": "retrieval", "in two stages": "two_stage"}
Found = Mapping[str, Sequence[Mapping[str, float]]]


def on_both(model: Model, of: Run) -> dict[str, float]:
    """Numbers of both splits by `split/...`."""
    splits = ("validation", "test")
    return {f"{split}/{key}": value for split in splits for key, value in numbers(model, of, split).items()}


def recall(cell: Mapping[str, float], split: str) -> float:
    """Mean recall as the model ranks in the end."""
    return cell.get(f"{split}/two_stage/mean_recall", cell[f"{split}/retrieval/mean_recall"])


def rows() -> list[Row]:
    return [
        Row(f"{name} {rate:g}", RECIPE, (*settings, *LENGTH, f"training.learning_rate={rate:g}"))
        for rate in RATES
        for name, settings in ROWS.items()
    ]


def chosen(found: Found) -> dict[str, str]:
    """By row, the row at its best rate; only of rows whose rates were all tried."""
    best = {}
    for name in ROWS:
        tried = [f"{name} {rate:g}" for rate in RATES]
        if all(len(found.get(one, ())) >= CHOOSING for one in tried):
            best[name] = max(tried, key=lambda one: mean(recall(cell, "validation") for cell in found[one][:CHOOSING]))
    return best


def stages(found: Found, best: Mapping[str, str]) -> dict[str, list[dict[str, float]]]:
    """What is reported: a row by points, and one in two stages where there is a matching head."""
    told = {}
    for name, at in best.items():
        for stage, prefix in STAGES.items():
            start = f"test/{prefix}/"
            cells = [{key.removeprefix(start): value for key, value in cell.items() if key.startswith(start)}
                     for cell in found[at]]  # fmt: skip
            if all(cells):
                told[f"{name}, {stage}" if name != BASE else BASE] = cells
    return told


def gains(told: Found) -> str:
    """Markdown: differences to CLIP, paired by seed, with 95% bootstrap intervals."""
    lines = [f"| gain over {BASE} | " + " | ".join(COLUMNS) + " |", "|---|" + "---:|" * len(COLUMNS)]
    for name, cells in told.items():
        base = told.get(BASE, ())
        if name != BASE and cells and len(cells) == len(base):  # a seed that is missing on one side pairs nothing
            pairs = list(zip(cells, base, strict=True))
            intervals = (mean_interval([100 * (own[key] - other[key]) for own, other in pairs])
                         for key in COLUMNS.values())  # fmt: skip
            lines.append(
                f"| {name} | "
                + " | ".join(f"{m:+.1f} ({low:+.1f} to {high:+.1f})" for m, low, high in intervals)
                + " |"
            )
    return "\n".join(lines)


def main(words: Sequence[str] | None = None) -> dict[str, list[dict[str, float]]]:
    """Run the cells, print the tables; return the rows that are reported."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser)
    parser.set_defaults(seeds=5)
    options = parser.parse_args(words)
    seeds, wanted = options.seeds, options.rows
    options.seeds = min(seeds, CHOOSING)
    found = run(rows(), options, on_both)
    best = chosen(found)
    if best and not wanted:
        options.seeds, options.rows = seeds, list(best.values())
        found = {**found, **run(rows(), options, on_both)}
    for row, cells in found.items():
        tried = [f"{100 * recall(cell, 'validation'):.1f}" for cell in cells[:CHOOSING]]
        print(f"{row}: mean recall on validation data {', '.join(tried) or 'none yet'}")
    told = stages(found, best)
    if told:
        print("at", ", ".join(best.values()), "\n\n" + table(told, COLUMNS), gains(told), sep="\n\n")
    return told


if __name__ == "__main__":
    main()
