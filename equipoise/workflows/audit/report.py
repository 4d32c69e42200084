"""The report of an audit: a sentence, tables, picture sheets.

audit.json        the noise level, how it was read, and what the data itself knows of its noise
pairs.csv         every image and text, the most suspicious first
neighbours.csv    images that are alike, images and texts of others that fit
wrong.png, duplicates.png
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from equipoise.analysis.decoys import Decoys
from equipoise.analysis.noise import NoiseEstimate, pooled
from equipoise.analysis.noise_kinds import kinds
from equipoise.data.contact_sheet import contact_sheet
from equipoise.data.copies.find import Copy
from equipoise.data.keep.settings import Reading
from equipoise.data.source import Source, has_pictures
from equipoise.io.atomic import write_text
from equipoise.io.numbers import hand_over
from equipoise.workflows.audit.truth import measured

SHEET, SHEET_SIZE = 16, 192
SHOWN = 3  # captions under a picture


@dataclass(frozen=True)
class Verdict:
    """The numbers of all judges, one row per text, in the order of the source's images."""

    readings: list[NoiseEstimate]  # one per judge
    checks: list[NoiseEstimate]
    sizes: list[int]  # images each of them judged
    parts: list[tuple[int, ...]]  # their numbers
    shuffled: float
    owners: np.ndarray  # [M] the number of the text's image
    right: np.ndarray  # [M] probability
    log_ratio: np.ndarray  # [M]
    similarity: np.ndarray  # [M]
    fitted: np.ndarray  # [M] share of images that a text fits alike
    margin: np.ndarray  # [M] log ratio, less that of the image which the text fits best
    alike: list[list[float]]  # similarity, image, image
    fitting: list[list[float]]  # fit, image, text
    aurocs: list[float]  # of each judge, of pairs against shuffled ones
    knowing: list[bool]  # whether that is more than chance
    copies: list[Copy] = field(default_factory=list)  # of pictures; `alike` are the first of them, where there are any
    scores: np.ndarray | None = None  # [judges, M] by a way of the field, where one was asked for
    decoys: Sequence[Decoys] = ()  # of each judge
    read_by: Reading = "likelihood"  # how the share of wrong pairs was read

    @property
    def share(self) -> float:
        return pooled(self.readings, self.sizes)[0]

    @property
    def interval(self) -> tuple[float, float]:
        return pooled(self.readings, self.sizes)[1]

    @property
    def check(self) -> tuple[float, float]:
        """The noise level with more pairs shuffled: expected, and estimated."""
        return 1 - (1 - self.share) * (1 - self.shuffled), pooled(self.checks, self.sizes)[0]

    @cached_property
    def evidence(self) -> np.ndarray:
        """The mean log ratio of each image's texts [N]; nan where there is none."""
        counts = np.bincount(self.owners, minlength=sum(self.sizes))
        with np.errstate(invalid="ignore"):
            return np.bincount(self.owners, self.log_ratio, sum(self.sizes)) / counts

    def kinds(self, right: np.ndarray) -> list[str]:
        """What is wrong with each text, where anything is suspected, by P(right) [M] (`analysis/noise_kinds.py`)."""
        return kinds(right, self.fitted, self.margin, self.owners)

    @property
    def sentence(self) -> str:
        low, high = self.interval
        expected, found = self.check
        return (
            f"Of {len(self.owners):,} pairs, {self.share:.1%} look wrong ({low:.1%} to {high:.1%} at 95%). "
            f"With a further {self.shuffled:.0%} shuffled, {expected:.1%} were to be read, and {found:.1%} were."
            + self.doubt
        )

    @property
    def doubt(self) -> str:
        """A sentence on judges that know nothing; empty where all know something."""
        if all(self.knowing):
            return ""
        count = len(self.knowing) - sum(self.knowing)
        return (
            f" But {count} of {len(self.knowing)} judges cannot tell these pairs from shuffled ones (AUROC "
            f"{min(self.aurocs):.2f}), so that what they read means nothing: train them longer, or by a better recipe."
        )


def write_verdict(verdict: Verdict, source: Source, folder: Path) -> None:
    texts = _texts(verdict, source)
    suspicion = np.lexsort((verdict.log_ratio, verdict.evidence[verdict.owners]))
    _write_csv(folder / "pairs.csv", _pair_rows(verdict, texts, suspicion))
    _write_csv(folder / "neighbours.csv", _neighbour_rows(verdict, texts, source))
    files = ["audit.json", "pairs.csv", "neighbours.csv"]
    if has_pictures(source):
        _wrong_sheet(verdict, source, suspicion, folder / "wrong.png")
        files += ["wrong.png"] + (["duplicates.png"] if verdict.alike else [])
        _duplicates_sheet(verdict, source, folder / "duplicates.png")
    truth = measured(verdict.evidence, verdict.alike, source)
    write_text(folder / "audit.json", json.dumps(_numbers(verdict, truth), indent=2) + "\n")
    hand_over({**_numbers(verdict, truth), "folder": str(folder)})
    print(f"\n{verdict.sentence}")
    for name, value in truth.items():
        print(f"{name.replace('_', ' ')}: {value:.3f}")
    print(f"\n{', '.join(files)} are in {folder}")


def _numbers(verdict: Verdict, truth: dict[str, float]) -> dict[str, Any]:
    expected, found = verdict.check
    return {
        "finding": verdict.sentence,
        "noise": verdict.share,
        "reading": verdict.read_by,
        "interval": verdict.interval,
        "check": {"shuffled": verdict.shuffled, "expected": expected, "found": found},
        "judges": [
            {**vars(reading), "auroc_of_shuffled": auroc, "knows": knows}
            for reading, auroc, knows in zip(verdict.readings, verdict.aurocs, verdict.knowing, strict=True)
        ],
        "truth": truth,
    }


def _texts(verdict: Verdict, source: Source) -> list[tuple[str, str]]:
    """Key and caption of each text; features may come without captions."""
    found, place = [], dict[int, int]()
    for owner in verdict.owners.tolist():
        number = place[owner] = place.get(owner, -1) + 1
        pair = source.pair(owner)
        found.append((pair.key, pair.captions[number] if number < len(pair.captions) else f"text {number}"))
    return found


def _pair_rows(verdict: Verdict, texts: Sequence[tuple[str, str]], order: np.ndarray) -> Iterable[Sequence[object]]:
    yield "key", "caption", "probability_right", "log_ratio", "record_log_ratio", "similarity", "kind"
    named = verdict.kinds(verdict.right)
    for row in order.tolist():
        numbers = verdict.right[row], verdict.log_ratio[row], verdict.evidence[verdict.owners[row]]
        yield *texts[row], *(f"{number:.4f}" for number in (*numbers, verdict.similarity[row])), named[row]


def _neighbour_rows(verdict: Verdict, texts: Sequence[tuple[str, str]], source: Source) -> Iterable[Sequence[object]]:
    yield "kind", "score", "key", "other_key", "caption", "other_caption"
    caption = {owner: texts[row][1] for row, owner in reversed(list(enumerate(verdict.owners.tolist())))}

    def first(number: float) -> tuple[str, str]:
        """Key and first caption of an image; it may have none."""
        return source.pair(int(number)).key, caption.get(int(number), "")

    for place, (score, a, b) in enumerate(verdict.alike):
        one, two = first(a), first(b)
        yield _kind(verdict, place), f"{score:.4f}", one[0], two[0], one[1], two[1]
    for score, image, text in verdict.fitting:
        one, two = first(image), texts[int(text)]
        yield "fits", f"{score:.4f}", one[0], two[0], one[1], two[1]


def _kind(verdict: Verdict, place: int) -> str:
    """How two images are alike: the same, nearly so, or closer than others."""
    if place >= len(verdict.copies):
        return "alike"
    return "copy" if verdict.copies[place].exact else "near copy"


def _wrong_sheet(verdict: Verdict, source: Source, suspicion: np.ndarray, path: Path) -> None:
    worst = list(dict.fromkeys(verdict.owners[suspicion].tolist()))[:SHEET]
    right = {owner: float(verdict.right[verdict.owners == owner].mean()) for owner in worst}
    scores = [f"P(right) {right[owner]:.3f}, log r {verdict.evidence[owner]:+.2f}" for owner in worst]
    title = f"The {len(worst)} most suspicious of {sum(verdict.sizes):,} records, row by row"
    _sheet(source, worst, scores, path, title, wrong_legend(verdict))


def wrong_legend(verdict: Verdict) -> str:
    """What the numbers on the sheet mean, and how many pairs look wrong where a judge can tell."""
    read = f"{verdict.share:.1%} of all pairs look wrong." if any(verdict.knowing) else ""
    return (
        "P(right): how likely it is that captions belong to their picture. log r: the evidence for it, against it "
        f"where it is below 0. Both are means over the captions of a record, of which up to {SHOWN} stand beneath. "
        f"{read}{verdict.doubt}"
    )


def _duplicates_sheet(verdict: Verdict, source: Source, path: Path) -> None:
    path.unlink(missing_ok=True)  # of an audit that found some
    named = verdict.alike[: SHEET // 2]
    if not named:
        return
    pairs = [int(number) for _, *two in named for number in two]
    scores = [f"{place + 1}: {_kind(verdict, place)}, {score:.3f}" for place, (score, *_) in enumerate(named)]
    title = f"The first {len(named)} of {len(verdict.alike):,} pairs of pictures that are alike, two by two"
    legend = "Number of the pair, kind of likeness, similarity (1: the same)."
    _sheet(source, pairs, [score for score in scores for _ in range(2)], path, title, legend)


def _sheet(source: Source, numbers: Sequence[int], scores: Sequence[str], path: Path, title: str, legend: str) -> None:
    pairs = [source.pair(number) for number in numbers]
    captions = [[f"{pair.key} · {score}", *pair.captions[:SHOWN]] for pair, score in zip(pairs, scores, strict=True)]
    contact_sheet(source.images(numbers, SHEET_SIZE), captions, path, title=title, legend=legend)


def _write_csv(path: Path, rows: Iterable[Sequence[object]]) -> None:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    write_text(path, text.getvalue())
