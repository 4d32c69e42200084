"""Subsets of modalities, several seeds: accuracy of objectives when some modalities are missing, mean ± deviation.

    python benchmarks/modalities.py gmc-world --out FOLDER
    python benchmarks/modalities.py gmc-mosi --out FOLDER --set data.root=mosi_utterances.npz
    python benchmarks/modalities.py mult-mosi --out FOLDER --set data.root=mosi_utterances.npz

`supervised` has no codes of modalities that are worth anything, so it is read by its joint encoder with zeros for the
rest; the others by the mean of codes. Rows of one seed share their start and the order of their data. The metric that
decides is the mean over subsets, each row read its own way; its differences to `supervised` and to `gmc` are paired by
seed, with a bootstrap interval. On `gmc-world` the last column is the best that anyone can do. Where the joint encoder
is MulT, `supervised, concat` has a perceptron in its place.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence

import cells
from cells import Row

from equipoise.claims.interval import mean_interval
from equipoise.config import Run, load_run
from equipoise.data.modalities import ModalWorlds
from equipoise.encoders.sequences import MulT
from equipoise.evaluation.evaluate import evaluate
from equipoise.evaluation.modalities import over_seeds, subsets_of
from equipoise.models.model import Model

OBJECTIVES = {
    "supervised": ("objective.name=supervised",),
    "gmc": ("objective.name=gmc",),
    "gmc_m2": ("objective.name=gmc_m2",),
    "gmc_m2, literal": ("objective.name=gmc_m2", "objective.reading=literal"),
}
CONTROL = {"supervised, concat": ("objective.name=supervised", "modalities.joint.name=concat")}
BESIDE = ("supervised", "gmc")  # rows that others are compared with
Found = Mapping[str, Sequence[Mapping[str, float]]]  # a row's numbers, seed by seed


def on_test(model: Model, run: Run) -> dict[str, float]:
    return evaluate(model, run.data.build("test"), run.evaluation)["subsets"].metrics


def ending(row: str) -> str:
    """How a row is read where modalities are missing, as metrics name it."""
    return "_zeroed" if row.startswith("supervised") else ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe")
    cells.add_options(parser)
    parser.set_defaults(seeds=5)
    options = parser.parse_args()
    run = load_run(options.recipe, options.set).run
    choices = {**OBJECTIVES, **(CONTROL if isinstance(run.modalities.joint, MulT.Config) else {})}
    rows = [Row(name, options.recipe, (*own, "training.evaluate_every=0")) for name, own in choices.items()]
    found = {name: several for name, several in cells.run(rows, options, on_test).items() if several}
    world = run.data if isinstance(run.data, ModalWorlds.Config) else None
    print(subsets_table(found, run.modalities.names, world))
    print()
    print(differences_table(found))


def subsets_table(found: Found, names: tuple[str, ...], world: ModalWorlds.Config | None) -> str:
    """A row for each subset; their mean each row's own way, and by zeros for the rest."""
    test = world.build("test") if world else None
    over = {name: over_seeds(several) for name, several in found.items()}
    lines = ["| given | " + " | ".join(found) + (" | possible |" if world else " |")]
    lines.append("|---" * (1 + len(found) + bool(world)) + "|")
    for some in subsets_of(names):
        keys = {name: f"{'+'.join(some)}{ending(name) if some != names else ''}_accuracy" for name in found}
        best = [f"{100 * world.best_accuracy(some, test):.1f}"] if world and test else []
        lines.append(f"| {' + '.join(some)} | " + " | ".join([*(_cell(over[n][keys[n]]) for n in found), *best]) + " |")
    for told, way in (("mean", ending), ("mean, by zeros", lambda _: "_zeroed")):
        each = [_cell(over[name][f"mean{way(name)}_accuracy"]) for name in found]
        lines.append(f"| {told} | " + " | ".join([*each, *([""] if world else [])]) + " |")
    return "\n".join(lines)


def differences_table(found: Found) -> str:
    """Differences of the mean over subsets, in points, paired by seed: mean and its 95% bootstrap interval."""
    lines = ["| mean over subsets | " + " | ".join(f"beside {name}" for name in BESIDE) + " |", "|---|---|---|"]
    for name in found:
        lines.append(f"| {name} | " + " | ".join(_difference(found, name, other) for other in BESIDE) + " |")
    return "\n".join(lines)


def _difference(found: Found, name: str, other: str) -> str:
    pairs = list(zip(found[name], found.get(other, ()), strict=False))
    if name == other or not pairs:
        return "-"
    mean, low, high = mean_interval(
        [100 * (a[f"mean{ending(name)}_accuracy"] - b[f"mean{ending(other)}_accuracy"]) for a, b in pairs]
    )
    return f"{mean:+.1f} ({low:+.1f} to {high:+.1f})"


def _cell(numbers: tuple[float, float]) -> str:
    return f"{100 * numbers[0]:.1f} ± {100 * numbers[1]:.1f}"


if __name__ == "__main__":
    main()
