"""Spaces × temperatures × noise, on precomputed features: Tables 2 and 7 of Sun & Li 2024 at toy scale.

    python benchmarks/topology.py TRAIN.npz TEST.npz --out FOLDER

Trains two linear heads (recipe `features`) for every space, start of the temperature, share of shuffled captions and
seed. A part of the training images is held out to choose the step; TEST is looked at once a cell, at that step and at
the last. A cell is a JSON file in FOLDER/cells; those that are there are not made again, so the same command goes on
where it was stopped. In the end (and with --report alone) it prints a Markdown table and judges the papers' claims.

Adam moves t by the learning rate a step at most, and these runs are 500 times shorter than the paper's. So that t can
reach its equilibrium at all, it learns `--speed` times as fast as the heads.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path
from statistics import mean, stdev
from tempfile import TemporaryDirectory

import numpy as np
import torch

from equipoise.config import load_run
from equipoise.evaluation.evaluate import validate
from equipoise.evaluation.logit_scale import logit_scale_course
from equipoise.io.atomic import write_text
from equipoise.workflows import load, train_run

SPHERES = 8
SPACES = {
    "sphere": ["space.name=sphere", "space.dim={dim}"],
    "euclidean": ["space.name=euclidean", "space.dim={dim}"],
    "ps-geodesic": ["space.name=product_sphere", "space.n={n}", f"space.m={SPHERES}", "space.distance=geodesic"],
    "ps-inner": ["space.name=product_sphere", "space.n={n}", f"space.m={SPHERES}"],
}
TEMPERATURES = {
    "fixed 1": ["temperature.init=0.0", "temperature.learnable=false"],
    "from 0": ["temperature.init=0.0"],
    "from 2.66": ["temperature.init=2.6593"],
    "from 5.31": ["temperature.init=5.31"],
}
NOISE = (0.0, 0.4)
DIRECTIONS = ("image_to_text", "text_to_image")
HELD_OUT = 500  # training images that choose the step


@dataclass(frozen=True)
class Cell:
    space: str
    temperature: str
    noise: float
    seed: int

    @property
    def file(self) -> str:
        return f"{self.space}_{self.temperature.replace(' ', '-')}_{self.noise:g}_{self.seed}.json"


def main() -> None:
    options = _options()
    chosen = range(options.seeds), options.noise, options.temperatures, SPACES
    cells = [Cell(space, temperature, noise, seed) for seed, noise, temperature, space in itertools.product(*chosen)]
    folder = options.out / "cells"
    folder.mkdir(parents=True, exist_ok=True)
    if not options.report:
        settings = _settings(options)
        _require_same(options.out / "settings.json", [*settings, f"dim={options.dim}"])
        missing = [cell for cell in cells if not (folder / cell.file).exists()]
        with ProcessPoolExecutor(options.jobs, mp_context=get_context("spawn")) as pool:
            arguments = _repeated(settings, options.dim, folder)
            for number, cell in enumerate(pool.map(measure, missing, *arguments), start=1):
                print(f"{number} of {len(missing)}: {cell}", flush=True)
    results = [json.loads((folder / cell.file).read_text()) for cell in cells if (folder / cell.file).exists()]
    write_text(options.out / "results.json", json.dumps(results, indent=1) + "\n")
    print(f"\n{len(results)} of {len(cells)} cells\n")
    for step in ("chosen", "last"):
        print("\n".join(table(results, step)), end="\n\n")
    print("\n".join(f"- {verdict}: {claim}" for claim, verdict in judge(results)))


def measure(cell: Cell, settings: Sequence[str], dim: int, folder: Path) -> str:
    """Train one cell and write down what it gives."""
    torch.set_num_threads(1)
    space = [setting.format(dim=dim, n=dim // SPHERES) for setting in SPACES[cell.space]]
    overrides = [*settings, *space, *TEMPERATURES[cell.temperature]]
    loaded = load_run("features", [*overrides, f"shuffle.share={cell.noise}", f"seed={cell.seed}"])
    with TemporaryDirectory() as place:
        model, outcome = train_run(loaded, Path(place))
        if outcome.signal:  # half a run is no cell
            raise SystemExit(128 + outcome.signal)
        test = loaded.run.data.build("test")
        best = Path(place) / "checkpoints" / "best"
        went = logit_scale_course(outcome.records, outcome.epoch)
        assert went is not None
        found = {
            **asdict(cell),
            "last": validate(model, test, loaded.run.evaluation),
            "chosen": validate(load(best), test, loaded.run.evaluation),
            "chosen_step": json.loads((best / "metrics.json").read_text())["step"],
            "t": math.log(went.final),
            "converged": went.converged,
            "clamped": went.clamped,
            "curve": [(int(r["step"]), r["logit_scale"]) for r in outcome.records if "logit_scale" in r],
        }
    write_text(folder / cell.file, json.dumps(found) + "\n")
    return cell.file


def table(results: Sequence[Mapping], step: str) -> Iterator[str]:
    """Markdown; R@1 in percent, mean ± standard deviation over seeds."""
    yield f"Test R@1 (image → text / text → image) at the {step} step:\n"
    yield "| t | shuffled | " + " | ".join(SPACES) + " |"
    yield "|---|---:|" + "---:|" * len(SPACES)
    for temperature, noise in itertools.product(TEMPERATURES, NOISE):
        shown = [_shown(_some(results, space, temperature, noise), step) for space in SPACES]
        yield f"| {temperature} | {noise:.0%} | " + " | ".join(shown) + " |"


def judge(results: Sequence[Mapping]) -> Iterator[tuple[str, str]]:
    """The papers' claims, each with what these cells say to it."""

    def recall(space: str, temperature: str) -> float:
        found = [_recall(r, "chosen") for r in _some(results, space, temperature, 0.0)]
        return mean(found) if found else math.nan

    def final(space: str, temperature: str) -> float:
        found = [r["t"] for r in _some(results, space, temperature, 0.0)]
        return mean(found) if found else math.nan

    learned = [name for name in TEMPERATURES if name.startswith("from")]
    for name in learned:
        inner, geodesic, sphere = (recall(space, name) for space in ("ps-inner", "ps-geodesic", "sphere"))
        figures = f"{inner:.1f}, {geodesic:.1f}, {sphere:.1f}"
        yield (
            f"learned {name}: inner >= geodesic >= sphere ({figures})",
            _holds(inner >= geodesic >= sphere, inner, geodesic, sphere),
        )
    for space, low, high in (
        ("sphere", 0, 0.4),
        ("ps-geodesic", 0, 0.4),
        ("ps-inner", 0.4, 0.9),
        ("euclidean", 0.9, 9),
    ):
        share = recall(space, "fixed 1") / recall(space, "from 2.66")
        says = f"fixed at 1, {space} keeps {share:.0%} of its R@1 (the paper: {_paper(space):.0%})"
        yield says, _holds(low <= share <= high, share)
    for space in SPACES:
        ends = [final(space, name) for name in learned]
        figures = ", ".join(f"{t:.2f}" for t in ends)
        yield (
            f"{space}: final t is the same from every start within 0.15 ({figures})",
            _holds(max(ends) - min(ends) < 0.15, *ends),
        )
    for name in learned:
        ends = [final(space, name) for space in ("sphere", "ps-geodesic", "ps-inner")]
        figures = ", ".join(f"{t:.2f}" for t in ends)
        yield (
            f"learned {name}: final t falls from sphere to geodesic to inner ({figures})",
            _holds(ends[0] > ends[1] > ends[2], *ends),
        )


def _paper(space: str) -> float:
    """Table 2 and 7: image-to-text R@1 fixed at 1 over that learned from 2.66."""
    return {"sphere": 5.1 / 48.3, "euclidean": 47.6 / 47.9, "ps-geodesic": 4.1 / 50.7, "ps-inner": 30.3 / 52.3}[space]


def _holds(true: bool, *figures: float) -> str:
    """The verdict on a claim about these figures; nan is one that no cell gave."""
    if any(map(math.isnan, figures)):
        return "not measured"
    return "holds" if true else "does NOT hold"


def _some(results: Sequence[Mapping], space: str, temperature: str, noise: float) -> list[Mapping]:
    wanted = (space, temperature, noise)
    return [r for r in results if (r["space"], r["temperature"], r["noise"]) == wanted]


def _recall(result: Mapping, step: str) -> float:
    """The mean of both directions, in percent."""
    return 100 * mean(result[step][f"{direction}_R@1"] for direction in DIRECTIONS)


def _shown(results: Sequence[Mapping], step: str) -> str:
    if not results:
        return "-"
    columns = [[100 * r[step][f"{direction}_R@1"] for r in results] for direction in DIRECTIONS]
    recalls = " / ".join(_spread(values) for values in columns)
    settled = sorted(r["converged"] for r in results if r["converged"] is not None)
    when = f"step {settled[len(settled) // 2]}" if settled else "not settled"
    return f"{recalls}; t {_spread([r['t'] for r in results], 2)}, {when}"


def _spread(values: Sequence[float], digits: int = 1) -> str:
    return f"{mean(values):.{digits}f}" + (f"±{stdev(values):.{digits}f}" if len(values) > 1 else "")


def _settings(options: argparse.Namespace) -> list[str]:
    """Overrides of the recipe, after the training file was cut in two."""
    with np.load(options.train) as arrays:
        if "image_of_text" in arrays:
            raise SystemExit(f"{options.train}: give features with one row of texts an image")
        for name, rows in (("train", slice(None, -HELD_OUT)), ("held-out", slice(-HELD_OUT, None))):
            np.savez(options.out / f"{name}.npz", **{key: arrays[key][rows] for key in arrays.files})
        widths = [f"{part}.width={arrays[part].shape[-1]}" for part in ("image", "text")]
    paths = {"train": options.out / "train.npz", "validation": options.out / "held-out.npz", "test": options.test}
    training = {"steps": options.steps, "batch_size": options.batch, "evaluate_every": 40, "checkpoint_every": 0}
    return [
        *widths,
        *(f"data.{split}={path}" for split, path in paths.items()),
        *(f"training.{key}={value}" for key, value in training.items()),
        "training.log_every=2",
        f"temperature.speed={options.speed}",
    ]


def _require_same(path: Path, settings: Sequence[str]) -> None:
    """Cells of other settings must not be taken for these."""
    if path.exists() and json.loads(path.read_text()) != settings:
        raise SystemExit(f"{path.parent} holds cells of other settings, see {path}; choose another --out")
    write_text(path, json.dumps(settings, indent=1) + "\n")


def _repeated(*values: object) -> list[Iterator]:
    return [itertools.repeat(value) for value in values]


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Spaces, temperatures and noise on precomputed features.")
    parser.add_argument("train", type=Path, help="features of the training pairs, .npz: docs/features.md")
    parser.add_argument("test", type=Path)
    parser.add_argument("--out", type=Path, required=True, help="folder for the cells")
    parser.add_argument("--steps", type=int, default=160)
    parser.add_argument("--dim", type=int, default=512, help="of every space; product spheres have 8 spheres")
    parser.add_argument("--batch", type=int, default=250)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--speed", type=float, default=30.0, help="of the temperature, beside that of the heads")
    parser.add_argument("--noise", type=float, nargs="+", default=NOISE, help="shares of shuffled captions")
    parser.add_argument("--temperatures", nargs="+", choices=TEMPERATURES, default=list(TEMPERATURES))
    parser.add_argument("--jobs", type=int, default=1, help="cells trained at once")
    parser.add_argument("--report", action="store_true", help="train nothing; print what is there")
    return parser.parse_args()


if __name__ == "__main__":
    main()
