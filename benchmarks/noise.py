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
ahead of every other, and how much each closes of the gap to the bound. `--draw FILE.png` draws R@1 against noise.
`--features data.train=FILE ...` adds rows whose judges are heads on features of the same records (`equipoise embed`),
ours and the field's; `--only-judge` asks these beforehand, for they need no GPU.
`--judge MODEL` adds the rows of a given model, which must not have seen these pairs: CLIP-score filtering and OSA.
Early stopping chooses its step on the validation split, so that one must not be the test split.

`--rates 3e-3 1e-3 3e-4` tries every row at each of these with the first seed, and takes the one that finds most on
the validation split for all seeds; what was tried stays beside the cells, in `tried`.

The two protocols of the field: by image (DECL, RCL) and by caption (NCR, NPC). `--set shuffle.file=INDEX.npy` takes the
index files of either; `--write-indices FOLDER` writes those of all shares and seeds, and trains nothing.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from cells import PRECISION, RECALL, ZERO_SHOT, Row, add_options, cell_name, chosen, numbers, run, table
from noise_judged import judge_alone, judged, on_kept, seconds_of, with_seed
from noise_report import MEAN_RECALL, against, draw, gains, ways
from noise_rows import BOUND, DRAWN, NOISE, ON_FEATURES, RECIPES, SHUFFLED, STOPPED, TOLD, rows

from equipoise.config import Loaded, load_run
from equipoise.data.caption_exchange import caption_counts
from equipoise.data.caption_shuffle import shuffled
from equipoise.data.keep.file import NOTE
from equipoise.data.noise_index import write_index
from equipoise.evaluation.retrieval import require_relevance
from equipoise.io.atomic import write_text
from equipoise.models.folder import BEST, CHECKPOINTS
from equipoise.models.model import Model
from equipoise.ops.tf32 import tf32_products
from equipoise.training.distributed.ranks import Ranks
from equipoise.types import UserError
from equipoise.workflows import train_run
from equipoise.workflows.audit.folds import training_pairs
from equipoise.workflows.claims.right_pairs import right_captions, with_right_pairs
from equipoise.workflows.clean import run as cleaning
from equipoise.workflows.clean.training import FOLDER, with_clean_pairs
from equipoise.workflows.load import load

JUDGED = "judged"  # folder of what was judged on features, below that of the cells
Judge = Callable[[Sequence[str]], Path]  # settings of a row that is judged on features to the folder of what is kept
BY_FILE = {name: key.replace("matching/", "retrieval/") for name, key in PRECISION.items()}


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


@contextmanager
def _told(loaded: Loaded) -> Iterator[None]:
    """Let the judges of the next round learn from what is truly right, whatever was found."""
    right = right_captions(training_pairs(loaded.run))
    with patch.object(cleaning, "_chosen", lambda _, settings, __: [right] * settings.judges):
        yield


def measure(
    row: Row,
    seed: int,
    extra: Sequence[str],
    file: Path,
    split: str = "test",
    relevance: str = "",
    judge: Judge | None = None,
    tf32: bool = False,
) -> str:
    """Train a cell, evaluate it on a split, write down what it gives and what judging cost. A trial keeps what it finds
    on test images beside, unread until its rate is chosen. `relevance` is of the test images."""
    torch.set_num_threads(1)
    settings = with_seed(row, extra, seed)
    loaded = load_run(row.recipe, settings)
    with TemporaryDirectory() as place, tf32_products(tf32):
        model, about = _trained(row, loaded, settings, Path(place), judge)
        judged_by = relevance or loaded.run.evaluation.relevance
        tested = replace(loaded.run, evaluation=replace(loaded.run.evaluation, relevance=judged_by))
        found = {"found": numbers(model, tested if split == "test" else loaded.run, split)}
        if split != "test":
            found["test"] = numbers(model, tested, "test")
    ways = {"tf32": True} if tf32 else {}
    write_text(
        file, json.dumps({"recipe": row.recipe, "settings": settings, **ways, **about, **found}, indent=1) + "\n"
    )
    seconds = about["seconds"]
    return f"{file.stem}, {seconds['judging']:.0f} s of judging, {seconds['training']:.0f} s of training"


def _trained(
    row: Row, loaded: Loaded, settings: Sequence[str], place: Path, judge: Judge | None
) -> tuple[Model, dict[str, Any]]:
    """The model of a cell, with what its judges said and the seconds of both."""
    right = with_right_pairs(loaded) if row.name.endswith(BOUND) else loaded
    start, folder = time.perf_counter(), place / FOLDER
    if judge and ON_FEATURES in row.name:
        folder = judge(settings)
        cleaned, judging = on_kept(loaded, folder), seconds_of(folder)
        start = time.perf_counter() - judging
    else:
        with _told(loaded) if row.name.endswith(TOLD) else nullcontext():
            cleaned = with_clean_pairs(right, place, Ranks())
        judging = time.perf_counter() - start
    model, outcome = train_run(cleaned, place)
    if outcome.signal:  # half a run is no cell
        raise SystemExit(128 + outcome.signal)
    model = load(place / CHECKPOINTS / BEST) if row.name.endswith(STOPPED) else model
    said = json.loads((folder / NOTE).read_text()) if (folder / NOTE).exists() else {}
    return model, {"seconds": {"judging": judging, "training": time.perf_counter() - start - judging}, "judged": said}


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


def _work(options: argparse.Namespace) -> Callable[..., str]:
    """What makes a cell by the options."""
    judge = partial(judged, options.features, options.out / JUDGED)
    return partial(measure, relevance=options.relevance, judge=judge, tf32=options.tf32)


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
    parser.add_argument("data", choices=RECIPES)
    parser.add_argument("--shares", type=float, nargs="+", default=[0.3, 0.6], help="of images with wrong captions")
    parser.add_argument("--level", choices=["image", "caption"], default="image", help="what is wrong together")
    parser.add_argument("--noise", choices=NOISE, default=SHUFFLED, help="what is wrong with them; others: of scenes")
    parser.add_argument("--write-indices", type=Path, metavar="FOLDER", help="write noise index files, train nothing")
    parser.add_argument("--relevance", default="", metavar="FILE", help="what is relevant among the test images: ECCV")
    parser.add_argument("--against", metavar="WAY", help="also tell how far this way is ahead of every other")
    parser.add_argument("--draw", type=Path, metavar="FILE", help="a picture: R@1 against the share of wrong captions")
    parser.add_argument(
        "--features", nargs="+", default=[], metavar="KEY=VALUE", help="of `features`, of the same records: to judge by"
    )
    parser.add_argument("--only-judge", action="store_true", help="judge the rows of --features, train nothing yet")
    parser.add_argument("--tf32", action="store_true", help="float32 products by a GPU's tensor cores, measuring too")
    parser.add_argument("--judge", type=Path, metavar="MODEL", help="a model that was not trained on these pairs")
    parser.add_argument(
        "--rates", type=float, nargs="+", default=[], help="learning rates that every row may choose of"
    )
    add_options(parser)
    options = parser.parse_args()
    if options.noise != SHUFFLED and options.data not in DRAWN:
        parser.error(f"--noise {options.noise} is drawn with scenes; for {options.data} leave it out")
    if options.write_indices:
        write_indices(options)
        return
    if options.only_judge and not options.features:
        parser.error("--only-judge is of rows that are judged on features; give --features")
    if options.relevance and not options.report:
        _require_relevance(options)
    about = (options.judge, options.noise, bool(options.features))
    known = chosen(rows(options.data, options.shares, options.level, *about), options.rows)
    if options.against and options.against not in (known_ways := ways([row.name for row in known])):
        parser.error(f"there is no way {options.against}; there are: {'; '.join(known_ways)}")
    if options.only_judge:
        rows_to_judge = [row for row in known if ON_FEATURES in row.name]
        place = argparse.Namespace(**{**vars(options), "out": options.out / JUDGED, "rows": None})
        run(rows_to_judge, place, work=partial(judge_alone, options.features, options.out / JUDGED))
        return
    found = run(at_best_rates(known, options), options, work=_work(options))
    of_files = {"mean recall": MEAN_RECALL, **(BY_FILE if options.relevance else {})}
    columns = {**RECALL, **({**PRECISION, **ZERO_SHOT} if options.data in DRAWN else of_files)}
    print(table(found, columns), gains(found, columns), sep="\n\n")
    if options.against:
        print("", against(found, options.against), sep="\n")
    if options.draw:
        draw(found, options.draw)


if __name__ == "__main__":
    main()
