"""What a claim is: a sentence of a paper, the rows that are compared, and the rule that decides, all before any run.

    arena   a recipe with settings that all its rows share, and what makes them small
    row     what is compared: an arena and some settings, with the trials of its sweep
    claim   rows, a metric, the parts of the rule (`rule.py`), what must be so for them to mean anything

Trials of a sweep are compared on the validation split, over the first `TUNING_SEEDS` seeds; the best is trained with
all seeds and reported on the test split. All rows of a claim have as many trials, or none can be better for it.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace

from equipoise.claims.rule import Part, Precondition

TUNING_SEEDS = 2
SMALL, GPU = "small", "gpu"
SCALES = (SMALL, GPU)
Settings = tuple[str, ...]
ONE_TRIAL: tuple[Settings, ...] = ((),)


@dataclass(frozen=True)
class Start:
    """The model that a fine-tuning row starts from, trained once a seed."""

    recipe: str
    settings: Settings = ()
    small: Settings = ()


@dataclass(frozen=True)
class OneStart(Start):
    """A start that is trained once for all seeds, where its data has none to be drawn by."""


@dataclass(frozen=True)
class Row:
    name: str
    recipe: str
    settings: Settings = ()
    small: Settings = ()  # further ones at the scale small
    sweep: tuple[Settings, ...] = ONE_TRIAL
    # how its cells are made: train, explained (and say where the model looks), finetune, opened (fine-tune a start
    # whose images and texts were moved apart by shift.amount), or right_pairs (train on captions that are truly right)
    kind: str = "train"
    seeded: Settings = ("seed", "data.seed")  # keys that get the seed
    method: str = ""  # of fine-tuning
    start: Start | None = None

    def plus(self, name: str, *settings: str, **changes: object) -> Row:
        """Another row with further settings."""
        return replace(self, name=name, settings=(*self.settings, *settings), **changes)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Curves:
    """Lines of a figure: rows at places of an axis, differences of two rows against another metric of the first, or
    all trials of rows against another metric of theirs."""

    across: str  # what the axis is, or the metric that gives the places
    lines: tuple[tuple[str, tuple[tuple[float, str], ...]], ...] = ()  # label; place and row
    gains: tuple[tuple[str, str], ...] = ()  # row with the idea, row without
    trials: tuple[str, ...] = ()  # rows whose trials are shown, on validation data
    levels: tuple[str, ...] = ()  # beside trials: rows whose best one is shown as a level line
    log: bool = False  # the axis grows by factors


@dataclass(frozen=True)
class Claim:
    paper: str  # key of references.bib; "" for a claim of this project
    where: str  # table or section
    says: str  # the sentence, in our words
    theirs: str = ""  # the numbers of the paper
    metric: str = "R@1"  # primary
    rows: tuple[Row, ...] = ()
    parts: tuple[Part, ...] = ()
    preconditions: tuple[Precondition, ...] = ()
    shown: tuple[str, ...] = ()  # further metrics in the table
    chooses: str = "R@1"  # the metric by which trials are chosen on validation data
    curves: Curves | None = None  # what its figure shows instead of a dot for every run
    features: tuple[str, ...] = ()  # files of a folder given with --features, which {features} in settings stands for
    data: tuple[str, ...] = ()  # the same of --data and {data}: pictures and towers
    not_testable: str = ""  # why, for a claim that this data cannot decide

    def row(self, name: str) -> Row:
        return next(row for row in self.rows if row.name == name)

    @property
    def metrics(self) -> tuple[str, ...]:
        """All that its table shows and its rule looks at, the primary one first."""
        ruled = (*(one.metric for one in self.parts), *(one.metric for one in self.preconditions))
        asked = (self.metric, *self.shown, *ruled)
        return tuple(dict.fromkeys(asked))

    def fingerprint(self) -> str:
        """Changes with rows and rule, so that a verdict never stands on a rule written after its run."""
        return hashlib.sha256(repr((self.rows, self.parts, self.preconditions, self.chooses)).encode()).hexdigest()[:16]

    def cells(self, seeds: int) -> int:
        """How many are trained at the scale gpu, were no other claim run: trials first, then the rest of the seeds."""
        tuning = min(TUNING_SEEDS, seeds)
        return sum(len(row.sweep) * tuning + seeds - tuning if len(row.sweep) > 1 else seeds for row in self.rows)
