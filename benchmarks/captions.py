"""What m²-Mix gives a model that writes captions: the rows of Oh et al. 2023, CoCa's table, from scratch.

    python benchmarks/captions.py scenes --out FOLDER --seeds 5 --jobs 12
    python benchmarks/captions.py scenes --out FOLDER --shares 0 0.3 ...                # wrong captions in training too
    python benchmarks/captions.py photos --out FOLDER --set data.root=SHARDS --set data.train='train-{000..005}.tar' \\
           --set data.validation=train-006.tar --set data.test=dev-000.tar              # COCO's or Flickr8k's shards

    Cap               captions alone (contrastive weight 0)
    CL                contrast alone (caption weight 0)
    CL + Cap          CoCa: 1 and 2
    CL + m² w + Cap   m²-Mix beside the contrast at weight w, constant over the run, λ ~ Beta(0.5, 0.5)

Rows of one seed share their start and their data; differences to CL + Cap are paired by seed, with a bootstrap
interval. CIDEr is times 100, as the papers print it. On scenes `true` is the share of a caption's statements that are
true, `named` that of the things it names rightly (docs/caption.md). A cell that was trained is not trained again.

The paper tunes open_clip's ViT-L/14 on COCO; here models learn from nothing, so the question is the same and the
numbers are not. It names neither the weight nor the Beta that it chose, so several weights are rows.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from cells import RECALL, Row, add_options, numbers, paired, run, table

from equipoise.claims.interval import mean_interval
from equipoise.config import load_run
from equipoise.io.atomic import write_text
from equipoise.workflows import train_run

BASE = "CL + Cap"
WEIGHTS = (0.1, 0.3, 1.0)
COCA = ("objective.name=coca", *(f"objective.decoder.{key}" for key in ("layers=4", "heads=4")))
MIXED = (
    "objective.name=m2mix", "objective.per_epoch=false", "objective.of.name=coca", "objective.of.decoder.layers=4",
    "objective.of.decoder.heads=4",
)  # fmt: skip
ROWS = {
    "Cap": (*COCA, "objective.contrastive_weight=0"),
    "CL": (*COCA, "objective.caption_weight=0"),
    BASE: COCA,
    **{f"CL + m² {weight:g} + Cap": (*MIXED, f"objective.m2_weight={weight}") for weight in WEIGHTS},
}
SCENES = (
    "data.train_size=20000", "data.test_size=1000", "data.validation_size=1000", "training.steps=1500",
    "training.evaluate_every=1500", "training.checkpoint_every=1500", "temperature.speed=10",
    "image.name=coca-micro", "image.width=256", "image.layers=6", "image.heads=8", "text.name=coca-micro",
)  # fmt: skip
RECIPES = {"scenes": ("clip-scenes-gpu", SCENES), "photos": ("coca-flickr8k", ())}
WORDS = {"CIDEr": "captioning/CIDEr", "BLEU-4": "captioning/Bleu_4", "ROUGE-L": "captioning/ROUGE_L"}
TRUTH = {
    "true": "captioning/caption_statements_true",
    "named": "captioning/caption_things_named",
    "wholly true": "captioning/caption_true",
}


def rows(kind: str, shares: Sequence[float]) -> list[Row]:
    recipe, base = RECIPES[kind]
    found = []
    for share in shares:
        noise = (f"shuffle.share={share}",) if share else ()
        found += [
            Row(f"{share:.0%} wrong: {name}" if share else name, recipe, (*base, *settings, *noise))
            for name, settings in ROWS.items()
        ]
    return found


def measure(row: Row, seed: int, extra: Sequence[str], file: Path) -> str:
    """Train a cell, evaluate it on the test split, write down what it gives."""
    torch.set_num_threads(1)
    settings = [*row.settings, *extra, f"seed={seed}"]
    settings += [f"shuffle.seed={seed}"] if any(text.startswith("shuffle.") for text in row.settings) else []
    loaded = load_run(row.recipe, settings)
    start = time.perf_counter()
    with TemporaryDirectory() as place:
        model, outcome = train_run(loaded, Path(place))
    if outcome.signal:  # half a run is no cell
        raise SystemExit(128 + outcome.signal)
    trained = time.perf_counter()
    found = numbers(model, loaded.run, "test")
    seconds = {"training": trained - start, "judging": time.perf_counter() - trained}
    about = {"recipe": row.recipe, "settings": settings, "seconds": seconds}
    write_text(file, json.dumps({**about, "found": found}, indent=1) + "\n")
    return f"{file.stem}, {seconds['training']:.0f} s of training, {seconds['judging']:.0f} s of captions and ranking"


def gains(found: Mapping[str, Sequence[Mapping[str, float]]], columns: Mapping[str, str]) -> str:
    """Markdown: differences to CL + Cap with as many wrong captions, paired by seed, with 95% bootstrap intervals."""
    lines = [f"| gain over {BASE} | " + " | ".join(columns) + " |", "|---|" + "---:|" * len(columns)]
    for name, results in found.items():
        share, _, what = name.rpartition(": ")
        pairs = paired(results, found.get(f"{share}: {BASE}" if share else BASE, ()))
        if what != BASE and pairs:
            cells = [_interval([100 * (own[key] - other[key]) for own, other in pairs]) for key in columns.values()]
            lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _interval(differences: Sequence[float]) -> str:
    mean, low, high = mean_interval(differences)
    return f"{mean:+.1f} ({low:+.1f} to {high:+.1f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", choices=RECIPES)
    parser.add_argument("--shares", type=float, nargs="+", default=[0.0], help="of images with wrong captions")
    add_options(parser)
    options = parser.parse_args()
    found = run(rows(options.data, options.shares), options, work=measure)
    columns = {**RECALL, **WORDS, **(TRUTH if options.data == "scenes" else {})}
    print(table(found, columns), gains(found, columns), sep="\n\n")


if __name__ == "__main__":
    main()
