"""Subsets of modalities, several seeds: accuracy of objectives when some modalities are missing, mean ± deviation.

    python benchmarks/modalities.py gmc-world
    python benchmarks/modalities.py gmc-mosi --set data.root=mosi_utterances.npz

`supervised` has no codes of modalities that are worth anything, so it is read by its joint encoder with zeros for the
rest; the others by the mean of codes. On `gmc-world` the last column is the best that anyone can do.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from equipoise.config import load_run
from equipoise.data.modalities import ModalWorlds
from equipoise.evaluation.evaluate import evaluate
from equipoise.evaluation.modalities import over_seeds, subsets_of
from equipoise.workflows.train_model import train_run

OBJECTIVES = {"supervised": "_zeroed", "gmc": "", "gmc_m2": ""}


def measured(recipe: str, overrides: list[str], objective: str, seed: int) -> dict[str, float]:
    """Numbers of one run on its test split."""
    own = [f"objective.name={objective}", f"seed={seed}", "training.evaluate_every=0"]
    loaded = load_run(recipe, [*overrides, *own])
    with tempfile.TemporaryDirectory() as folder:
        model, _ = train_run(loaded, Path(folder) / "run")
    return evaluate(model, loaded.run.data.build("test"), loaded.run.evaluation)["subsets"].metrics


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--seeds", type=int, default=5)
    options = parser.parse_args()
    run = load_run(options.recipe, options.set).run
    found = {}
    for objective in OBJECTIVES:
        found[objective] = over_seeds(
            [measured(options.recipe, options.set, objective, n) for n in range(options.seeds)]
        )
        print(f"{objective}: {found[objective]}", flush=True)
    names = run.modalities.names
    world = run.data if isinstance(run.data, ModalWorlds.Config) else None
    test = world.build("test") if world else None
    print("| given | " + " | ".join(OBJECTIVES) + (" | possible |" if world else " |"))
    print("|---" * (1 + len(OBJECTIVES) + bool(world)) + "|")
    for some in subsets_of(names):
        cells = [
            _cell(found[one], "+".join(some), ending if some != names else "") for one, ending in OBJECTIVES.items()
        ]
        cells += [f"{100 * world.best_accuracy(some, test):.1f}"] if world and test else []
        print(f"| {' + '.join(some)} | {' | '.join(cells)} |")
    print("| mean | " + " | ".join(_cell(found[one], "mean", ending) for one, ending in OBJECTIVES.items()) + " |")


def _cell(numbers: dict[str, tuple[float, float]], subset: str, ending: str) -> str:
    mean, deviation = numbers[f"{subset}{ending}_accuracy"]
    return f"{100 * mean:.1f} ± {100 * deviation:.1f}"


if __name__ == "__main__":
    main()
