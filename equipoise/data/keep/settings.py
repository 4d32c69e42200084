"""The recipe tables `[keep]` and `[clean]`.

[keep]
folder = "cleaned/photos"    # what `equipoise clean` wrote
rule = "decision"            # go by the decisions in the file, or decide anew: threshold, share, weights
threshold = 0.5

[clean]
enabled = true               # the same as `equipoise train RECIPE --clean`
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from equipoise.data.keep.apply import kept_source
from equipoise.data.keep.rules import WEIGHTS, Rule
from equipoise.data.source import Source
from equipoise.types import UserError

Evidence = Literal["ratio", "gmm", "score", "osa", "npc", "gsc", "crcl", "co_teaching"]
Reading = Literal["likelihood", "decoys"]
WEIGHTS_ONLY = ("osa", "npc")  # no probabilities, so that neither a threshold nor a share of them means anything
CITES: dict[str, tuple[str, ...]] = {
    "gmm": ("li2020dividemix", "huang2021ncr"),
    "score": ("gadre2023datacomp",),
    "osa": ("li2024osa",),
    "npc": ("zhang2024npc",),
    "gsc": ("zhao2024gsc",),
    "crcl": ("qin2023crcl",),
    "co_teaching": ("han2018coteaching",),
}
MOST_ROUNDS = 9  # each costs as much as the first
STEPS_SHARE = 0.4  # of the model's steps, where nothing is said of the judges': 600 for 1,500 in docs/clean.md


@dataclass(frozen=True)
class Keep:
    """Which captions of the training split are trained on; all of them where there is no folder."""

    folder: str = ""  # of `equipoise clean`
    rule: Literal["decision", "threshold", "share", "weights"] = "decision"  # the file's, or anew by P(right)
    threshold: float = 0.5  # of the rule threshold: a caption is kept whose P(right) is as high
    unknown: Literal["refuse", "drop"] = "refuse"  # records of which the file says nothing

    def __post_init__(self) -> None:
        _require_probability(self.threshold)

    def applied_to(self, source: Source) -> Source:
        """The captions that are kept, and the images that have any; the source itself where there is no folder."""
        if not self.folder:
            return source
        return kept_source(source, Path(self.folder), self.rule, self.threshold, Keep.threshold, self.unknown)


@dataclass(frozen=True)
class Clean:
    """How pairs are judged, and which are kept (docs/clean.md)."""

    enabled: bool = False  # whether `equipoise train` cleans its data first; `equipoise clean` does anyway
    folds: int = 2  # judges, each trained on the pairs that it does not judge
    seed: int = 0  # of the folds
    recipe: str = ""  # of the judges, on the run's pairs: other towers, say; empty: that of the run
    steps: int = 0  # of each judge; 0: those of their own recipe, or two fifths of training.steps
    rounds: int = 1  # above 1: judges again, trained on what the round before kept
    model: str = ""  # a model to judge with, that was not trained on these pairs; empty: judges are trained
    seen: bool = False  # whether judges train on all pairs, also on those that they judge: to compare with
    reading: Reading = "likelihood"  # how the share of wrong pairs is read (docs/audit.md)
    evidence: Evidence = "ratio"  # how P(right) follows: from log r and π, or by a way of the field (docs/clean.md)
    judges: int = 1  # models a fold, whose evidence is averaged
    per: Literal["auto", "caption", "image"] = "auto"  # by itself and its siblings, by itself, all of an image together
    rule: Rule = "threshold"  # what is kept: threshold, share, weights (docs/clean.md)
    threshold: float = 0.5  # of the rule threshold: a caption is kept whose P(right) is as high
    share: float = 0.0  # of captions that the rule share drops; 0: as many as the judges read to be wrong
    rematch: bool = False  # whether images that lose all captions get those of another record that fit them
    online: bool = False  # whether judges train and judge beside the model, instead of before it
    every: float = 1.0  # epochs of the model between two judgements, where they do; below 1, of what is drawn next
    momentum: float = 0.5  # what stays of the evidence so far at each
    baseline: bool = False  # whether the run is trained on all pairs too, so that its report says what cleaning bought

    def __post_init__(self) -> None:
        _require_probability(self.threshold)
        if not 0 <= self.share < 1:
            raise UserError(f"share is {self.share}; give the part of captions to drop, from 0 to below 1")
        for name, least in (("folds", 2), ("judges", 1), ("steps", 0), ("seed", 0)):
            if getattr(self, name) < least:
                raise UserError(f"{name} must be at least {least}, not {getattr(self, name)}")
        if not 1 <= self.rounds <= MOST_ROUNDS:
            raise UserError(f"rounds must be from 1 to {MOST_ROUNDS}, not {self.rounds}")
        if not 0 < self.every < math.inf:
            raise UserError(f"every must be a number of epochs above 0, not {self.every}")
        if not 0 <= self.momentum < 1:
            raise UserError(f"momentum must be from 0 to below 1, not {self.momentum}")
        self._require_sense()
        self._require_dropping()
        self._require_online()

    def _require_sense(self) -> None:
        """Raises UserError for evidence with settings that it cannot go with."""
        if self.evidence not in get_args(Evidence):
            raise UserError(f"evidence is {self.evidence!r}; choose among {', '.join(get_args(Evidence))}")
        if self.evidence in WEIGHTS_ONLY and (self.rule != WEIGHTS or self.rounds > 1):
            raise UserError(
                f"evidence {self.evidence} weighs pairs, and says of none that it is wrong; set clean.rule to weights "
                "and clean.rounds to 1"
            )
        if self.evidence == "co_teaching" and (self.judges, self.rounds) != (2, 2):
            raise UserError(
                "evidence co_teaching is two judges that choose pairs for each other's next round; set clean.judges "
                "and clean.rounds to 2"
            )

    def _require_dropping(self) -> None:
        """Raise UserError where captions are to be matched anew, and none is dropped or log r is not the evidence."""
        if self.rematch and (self.rule == WEIGHTS or self.evidence != "ratio" or self.online):
            raise UserError(
                "rematch gives images that lost all captions those of others, by log r; set clean.rule to threshold or "
                "share, clean.evidence to ratio and clean.online to false, or rematch to false"
            )

    def _require_online(self) -> None:
        """Raise UserError for what pairs that are judged while a model trains cannot have."""
        one_way = {"rule": "weights", "rounds": 1, "judges": 1, "seen": False, "evidence": "ratio"}
        for name, value in one_way.items():
            if self.online and getattr(self, name) != value:
                raise UserError(
                    f"online weighs pairs by judges of their own, each anew; set clean.{name} to {value}, not "
                    f"{getattr(self, name)}"
                )

    @property
    def cites(self) -> tuple[str, ...]:
        return CITES.get(self.evidence, ()) if self.enabled else ()

    def judge_steps(self, steps: int) -> int:
        """Steps of a judge of a run of `steps`."""
        return self.steps or max(1, round(STEPS_SHARE * steps))


def _require_probability(threshold: float) -> None:
    if not 0 <= threshold <= 1:
        raise UserError(f"threshold is {threshold}; give a probability from 0 to 1")
