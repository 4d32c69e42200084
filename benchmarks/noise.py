"""The noise bench: what wrong captions cost, what cleaning gives back, and what others' ways give.

    python benchmarks/noise.py scenes --out FOLDER --seeds 5 --jobs 12 --shares 0.3 0.6
    python benchmarks/noise.py features --out FOLDER --shares 0.4 0.6 --set data.train=TRAIN.npz --set data.test=DEV.npz
    python benchmarks/noise.py features --out FOLDER --level caption ...       # single captions wrong, not images'
    python benchmarks/noise.py coco --out FOLDER --shares 0.2 0.4 --set data.root=SHARDS --set image.model=RESNET ... \
        --relevance eccv_image_to_caption.json                                 # mAP@R of test images by ECCV Caption
    python benchmarks/noise.py scenes --out FOLDER --noise wrong_attribute     # or near_duplicates, vague
    python benchmarks/noise.py demo --out FOLDER ...                           # scenes as the demo's, on a processor

For each share of wrong captions: a run on all pairs; runs by the ways of the field; runs on what judges keep that never
saw what they judge (`--clean`); and the bound of every method that drops: a run on the captions that are truly right. A
run without noise stands beside them. Rows of one seed share their start and their data; the last columns are
differences to the noisy row per seed, with a bootstrap interval over seeds. `--against WAY` tells how far that way is
ahead of every other, and how much each closes of the gap to the bound, `--by` mean recall or another number. `--draw
FILE.png` draws R@1 against noise.
`--features data.train=FILE ...` adds rows whose judges are heads on features of the same records (`equipoise embed`),
ours and the field's. `--share-judges` judges once for all rows that differ in what is done with P(right) alone, by the
recipe's own loss (noise_judged.py). `--only-judge` asks either kind beforehand: those on features need no GPU.
`--judge MODEL` adds the rows of a given model, which must not have seen these pairs: CLIP-score filtering and OSA.
Early stopping chooses its step on the validation split, so that one must not be the test split.

`--rates 3e-3 1e-3 3e-4` tries every row at each of these with the first seed, and takes the one that finds most on
the validation split for all seeds; what was tried stays beside the cells, in `tried`.

The two protocols of the field: by image (DECL, RCL) and by caption (NCR, NPC). `--set shuffle.file=INDEX.npy` takes the
index files of either; `--write-indices FOLDER` writes those of all shares and seeds, and trains nothing.

    python benchmarks/noise.py coco --out FOLDER --report --keep docs/noise/coco.jsonl.gz
    python benchmarks/noise.py coco --cells docs/noise/coco.jsonl.gz --against WAY --judged

`--keep` packs the cells of a folder into a file that the repository keeps, `--cells` prints the same tables from it.
`--judged` adds who names the wrong ones: the share that judges read, how well they order captions, what they cost.
"""

from __future__ import annotations

import argparse
import itertools
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
from cells import Row, cell_name, chosen, run
from noise_cell import measure
from noise_cells import gathered, pack, packed, shares_in
from noise_judged import SharedJudges, judge_beforehand
from noise_options import read_options
from noise_report import show, ways
from noise_rows import RECIPES, rows

from equipoise.config import load_run
from equipoise.data.caption_exchange import caption_counts
from equipoise.data.caption_shuffle import shuffled
from equipoise.data.noise_index import write_index
from equipoise.evaluation.retrieval import require_relevance
from equipoise.io.atomic import write_text
from equipoise.types import UserError

JUDGED = "judged"  # folder of what judges said that rows share, below that of the cells
SHARES = [0.3, 0.6]


def write_indices(options: argparse.Namespace) -> None:
    """Who is given whose captions, a file for each share and seed: by caption, or one number an image."""
    recipe, base = RECIPES[options.data]
    clean = load_run(recipe, (*base, *options.set)).run.data.build("train")
    counts = caption_counts(clean) if options.level == "caption" else np.ones(len(clean), dtype=np.int64)
    options.write_indices.mkdir(parents=True, exist_ok=True)
    for share, seed in itertools.product(options.shares, range(options.seeds)):
        file = options.write_indices / f"{options.level}-{share:g}-{seed}.npy"
        write_index(file, counts, shuffled(int(counts.sum()), share, seed).numpy())
        print(file)


def at_best_rates(rows: Sequence[Row], options: argparse.Namespace) -> list[Row]:
    """Each row at the rate that finds most on the validation split, by the first seed."""
    if not options.rates:
        return list(rows)
    best: dict[str, tuple[float, float, Row]] = {}
    for rate in options.rates:
        trials = [replace(row, settings=(*row.settings, f"training.learning_rate={rate:g}")) for row in rows]
        place = {"out": _tried(options, rate), "seeds": 1, "rows": None}
        work = partial(_work(options), split="validation")
        found = run(trials, argparse.Namespace(**{**vars(options), **place}), work=work)
        for row in trials:
            score = found[row.name][0]["retrieval/mean_recall"] if found[row.name] else -1.0
            best[row.name] = max(best.get(row.name, (-2.0, 0.0, row)), (score, rate, row), key=lambda one: one[0])
    print(f"| chosen of {', '.join(f'{rate:g}' for rate in options.rates)} | rate |\n|---|---:|")
    print("\n".join(f"| {name} | {rate:g} |" for name, (_, rate, _) in best.items()))
    for name, (_, rate, _) in best.items():
        _take(_tried(options, rate) / cell_name(name, 0), options.out / cell_name(name, 0))
    return [row for _, _, row in best.values()]


def _judges(options: argparse.Namespace) -> SharedJudges:
    return SharedJudges(options.out / JUDGED, tuple(options.features), options.share_judges, options.tf32)


def _work(options: argparse.Namespace) -> Callable[..., str]:
    """What makes a cell by the options."""
    return partial(measure, relevance=options.relevance, judges=_judges(options), tf32=options.tf32)


def _require_relevance(options: argparse.Namespace) -> None:
    """End with a sentence if the file of relevance cannot judge the test images: now, not after training."""
    recipe, base = RECIPES[options.data]
    try:
        run = load_run(recipe, (*base, *options.set)).run
        require_relevance(run.data.build("test"), replace(run.evaluation, relevance=options.relevance))
    except UserError as error:
        raise SystemExit(str(error)) from None


def _tried(options: argparse.Namespace, rate: float) -> Path:
    return options.out / "tried" / f"{rate:g}"


def _take(trial: Path, cell: Path) -> None:
    """The chosen trial is the first seed's cell: the same run, by its test images."""
    about = json.loads(trial.read_text()) if trial.exists() else {}
    found = about.pop("test", None)
    if found and not cell.exists():
        write_text(cell, json.dumps({**about, "found": found}, indent=1) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description="What wrong captions cost, and what cleaning gives back.")
    options = read_options(parser)
    if options.write_indices:
        write_indices(options)
        return
    if options.relevance and not options.report:
        _require_relevance(options)
    cells = packed(options.cells) if options.cells else None
    options.shares = options.shares or (shares_in(cells) if cells else SHARES)
    every = (options.judge or (Path("given") if cells else None), options.noise, bool(options.features or cells))
    known = chosen(rows(options.data, options.shares, options.level, *every), options.rows)
    if options.against and options.against not in (known_ways := ways([row.name for row in known])):
        parser.error(f"there is no way {options.against}; there are: {'; '.join(known_ways)}")
    if cells is None:
        if not options.report:
            _make_cells(known, options)
        cells = gathered((options.out / JUDGED, options.out), known)
    if options.keep:
        print(f"{pack(cells, options.keep)} cells are in {options.keep}")
    show(cells, known, options)


def _make_cells(known: Sequence[Row], options: argparse.Namespace) -> None:
    judge_beforehand(_judges(options), known, options, anew=options.only_judge)
    if not options.only_judge:
        run(at_best_rates(known, options), options, work=_work(options))


if __name__ == "__main__":
    main()
