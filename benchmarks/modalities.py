"""Subsets of modalities, several seeds: accuracy of objectives when some modalities are missing, mean ± deviation.

    python benchmarks/modalities.py gmc-world --out FOLDER
    python benchmarks/modalities.py gmc-mosi --out FOLDER --set data.root=mosi_utterances.npz
    python benchmarks/modalities.py mult-mosi --out FOLDER --set data.root=mosi_utterances.npz

`supervised` has no codes of modalities that are worth anything, so it is read by its joint encoder with zeros for the
rest; the others by the mean of codes. Rows of one seed share their start and the order of their data. The metric that
decides is the mean over subsets, each row read its own way; its differences to `supervised` and to `gmc` are paired by
seed, with a bootstrap interval. On `gmc-world` the last column is the best that anyone can do. Where the joint encoder
is MulT, `supervised, concat` has a perceptron in its place. `--draw FILE.png` draws the accuracies, and trains two rows
once more, with seed 0, to draw their codes by modality (PCA).
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import cells
import numpy as np
from cells import Row

from equipoise.claims.interval import mean_interval
from equipoise.config import Run, load_run
from equipoise.data.modalities import ModalWorlds
from equipoise.encoders.sequences import MulT
from equipoise.evaluation.evaluate import evaluate, to_encode
from equipoise.evaluation.modalities import over_seeds, subsets_of
from equipoise.io.figures import INK, SERIES, style
from equipoise.models.model import Model
from equipoise.reports.modal_map import MARKERS, ModalMap, draw_on
from equipoise.reports.space_charts import gather_modal_space
from equipoise.workflows import train_run

OBJECTIVES = {
    "supervised": ("objective.name=supervised",),
    "gmc": ("objective.name=gmc",),
    "gmc_m2": ("objective.name=gmc_m2",),
    "gmc_m2, literal": ("objective.name=gmc_m2", "objective.reading=literal"),
}
CONTROL = {"supervised, concat": ("objective.name=supervised", "modalities.joint.name=concat")}
BESIDE = ("supervised", "gmc")  # rows that others are compared with, and whose codes are drawn
DRAWN = ("supervised", "gmc", "gmc_m2")  # rows whose accuracies are
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
    parser.add_argument("--draw", type=Path, metavar="FILE", help="a picture: accuracies, and codes by modality")
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
    if options.draw:
        codes = {name: codes_of(options.recipe, [*choices[name], *options.set]) for name in BESIDE if name in found}
        draw({name: found[name] for name in DRAWN if name in found}, run.modalities.names, world, codes, options.draw)


def codes_of(recipe: str, settings: Sequence[str]) -> ModalMap | None:
    """The map of the test samples' codes by a model of seed 0."""
    loaded = load_run(recipe, [*settings, "training.evaluate_every=0", "seed=0"])
    with TemporaryDirectory() as place:
        model, _ = train_run(loaded, Path(place))
    return gather_modal_space(to_encode(model, loaded.run.data.build("test"), loaded.run.evaluation)).modalities


def draw(
    found: Found,
    names: tuple[str, ...],
    world: ModalWorlds.Config | None,
    codes: Mapping[str, ModalMap | None],
    path: Path,
) -> None:
    """Accuracy from every subset, beside what is possible where it is known; codes by modality of some rows."""
    maps = {name: one for name, one in codes.items() if one}
    with style():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(9.2, 3.9), layout="constrained", facecolor="white")
        left, *right = figure.subplots(1, 1 + len(maps), width_ratios=[1.35, *[1] * len(maps)], squeeze=False)[0]
        subsets = subsets_of(names)
        if world:
            test = world.build("test")
            best = [100 * world.best_accuracy(some, test) for some in subsets]
            left.plot(best, range(len(subsets)), "|", color=INK, markersize=14, markeredgewidth=1.5, label="possible")
        for number, (name, several) in enumerate(found.items()):
            over = over_seeds(several)
            cells = [over[f"{'+'.join(some)}{ending(name) if some != names else ''}_accuracy"] for some in subsets]
            means, deviations = (100 * np.array(column) for column in zip(*cells, strict=True))
            heights = np.arange(len(subsets)) + 0.2 * (number - (len(found) - 1) / 2)
            left.errorbar(means, heights, xerr=deviations, fmt=MARKERS[number], color=SERIES[number], markersize=4,
                          linewidth=1.2, label=name)  # fmt: skip
        left.set_yticks(range(len(subsets)), [" + ".join(some) for some in subsets])
        left.invert_yaxis()
        left.set_xlabel("accuracy (%), mean ± sd over seeds")
        left.legend(loc="upper center", bbox_to_anchor=(0.4, 1.16), ncols=4, columnspacing=0.8, handletextpad=0.2)
        for axes, (name, one) in zip(right, maps.items(), strict=True):
            draw_on(axes, one)
            axes.set_title(f"codes of {name}", fontsize=9, color=INK)
        if right:
            right[0].legend(loc="upper left", markerscale=1.3, handletextpad=0.1, borderpad=0.1)
        figure.savefig(path, dpi=120)


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
    pairs = cells.paired(found[name], found.get(other, ()))
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
