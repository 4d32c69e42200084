"""The linear probe with a few pictures of each class: how many labels is a model's zero-shot knowledge worth?

Radford et al. 2021, §3.1.4 and Fig. 6: logistic regression on 1, 2, 4, 8 and 16 pictures of each class. They do not
say how the penalty was chosen; the protocol here is that of Zhou et al. 2022 (CoOp, `lpclip/linear_probe.py`), which
repeats it: C is chosen on min(shots, 4) validation pictures of each class, and the map stays as it was trained on the
shots, so that n shots are n pictures of a class. Averaged over draws (three; CoOp has ten).

Fewer shots are the first of more, of a draw. A class with fewer pictures than shots is refused, one with fewer than
min(shots, 4) validation pictures gives those it has. The search is CLIP's (`linear_probe.py`); CoOp's ends between
its steps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import TYPE_CHECKING

import torch

from equipoise.data.rng import generator
from equipoise.evaluation.linear_probe import Labelled, choose_penalty, measured, regression, require_labelled
from equipoise.io.figures import INK, SERIES, captioned_figure, style
from equipoise.types import UserError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHOTS, DRAWS, TO_CHOOSE = (1, 2, 4, 8, 16), 3, 4


@dataclass(frozen=True)
class ShotAccuracy:
    shots: int
    accuracies: tuple[float, ...]  # of test data, one per draw
    penalties: tuple[float, ...]  # C of each

    @property
    def mean(self) -> float:
        return fmean(self.accuracies)

    @property
    def deviation(self) -> float:
        """Between draws."""
        return stdev(self.accuracies) if len(self.accuracies) > 1 else 0.0


def few_shot_curve(
    train: Labelled,
    validation: Labelled,
    test: Labelled,
    shots: Sequence[int] = SHOTS,
    draws: int = DRAWS,
    seed: int = 0,
    class_names: Sequence[str] = (),
    on_fit: Callable[[], object] = lambda: None,
) -> list[ShotAccuracy]:
    """Accuracies of the probe by the number of pictures of each class."""
    require_labelled(train, validation, test)
    require_shots(train, shots, draws, class_names)
    found = []
    for count in sorted(set(shots)):
        accuracies, penalties = [], []
        for draw in range(draws):
            some = drawn(train, count, seed, draw, "shots")
            chosen, _ = choose_penalty(some, drawn(validation, min(count, TO_CHOOSE), seed, draw, "choose"), on_fit)
            scores = regression(some, chosen)(test.features)
            on_fit()
            accuracies.append(measured(scores, test.classes)["lp_acc1"])
            penalties.append(chosen)
        found.append(ShotAccuracy(count, tuple(accuracies), tuple(penalties)))
    return found


def drawn(known: Labelled, shots: int, seed: int, draw: int, what: str) -> Labelled:
    """The first `shots` records of every class, in an order of this draw's own."""
    chosen = []
    for one in known.classes.unique().tolist():
        members = torch.nonzero(known.classes == one)[:, 0]
        order = torch.randperm(len(members), generator=generator(seed, "few-shot curve", what, draw, one))
        chosen.append(members[order[:shots]])
    rows = torch.cat(chosen)
    return Labelled(known.features[rows], known.classes[rows])


def require_shots(train: Labelled, shots: Sequence[int], draws: int, class_names: Sequence[str] = ()) -> None:
    """Raises UserError where a number is none, or a class has fewer pictures to train on."""
    if not shots or min(shots) < 1:
        raise UserError(f"--shots must be whole numbers from 1, not {', '.join(map(str, shots)) or 'none'}")
    if draws < 1:
        raise UserError(f"--draws must be at least 1, not {draws}")
    classes, counts = train.classes.unique(return_counts=True)
    fewest = int(counts.argmin())
    if int(counts[fewest]) < max(shots):
        number = int(classes[fewest])
        name = f'"{class_names[number]}"' if class_names else str(number)
        raise UserError(
            f"the class {name} has {int(counts[fewest])} pictures to train on, and --shots asks for {max(shots)}; "
            "ask for fewer, or leave the class out"
        )


def draw_curve(curve: Sequence[ShotAccuracy], zero_shot: float | None, chance: float, finding: str) -> Figure:
    with style():
        figure = captioned_figure("A linear probe on a few pictures of each class", finding)
        axes = figure.subplots()
        shots = [one.shots for one in curve]
        means, spread = [one.mean for one in curve], [one.deviation for one in curve]
        axes.errorbar(shots, means, yerr=spread, color=SERIES[0], marker="o", capsize=3, label="linear probe")
        if zero_shot is not None:
            axes.axhline(zero_shot, color=SERIES[1], linewidth=1.2, label="zero-shot")
        axes.axhline(chance, color=INK, linewidth=1, linestyle=(0, (4, 3)), label="chance")
        axes.set_xscale("log", base=2)
        axes.set_xticks(shots, [str(count) for count in shots])
        axes.minorticks_off()
        axes.set_xlabel("pictures of each class to train on (bars: deviation between draws)")
        axes.set_ylabel("accuracy")
        axes.set_ylim(bottom=0)
        axes.legend()
    return figure
