"""The report of a run: one HTML file that needs nothing else, for a reader who was not there.

Pictures are data URIs, curves are inline SVG, there are no scripts and nothing is fetched. The template escapes every
value it prints (captions come from the web), and the page's content policy forbids scripts besides.
What a run does not have (an evaluation, examples, a bibliography) is left out of its report.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from equipoise.evaluation import EVALUATIONS
from equipoise.evaluation.metrics import percent
from equipoise.evaluation.results import metric
from equipoise.evaluation.robustness import COLUMNS, Robustness
from equipoise.evaluation.subsets import MEANS, by_codes
from equipoise.finetuning.comparison import Comparison
from equipoise.io.atomic import write_text
from equipoise.io.figures import svg
from equipoise.reports import plots
from equipoise.reports.charts import charts
from equipoise.reports.page import page
from equipoise.reports.tuning import numbers_before, section, tuned_title, tuned_verdict

REPORT = "report.html"
HEADLINES = (
    "text_to_image_R@1", "image_to_text_R@1", "text_to_image_mAP@R", "acc1", "mean_accuracy", "modal_mean_recall",
)  # fmt: skip

Numbers = Mapping[str, float]
MEAN = MEANS["codes"]


@dataclass(frozen=True)
class TextQuery:
    """A text and the images found for it, closest first."""

    text: str
    images: Sequence[np.ndarray]  # uint8 [H, W, 3]
    correct: Sequence[bool]  # whether the image truly matches
    similarity: Sequence[float]
    labelled: Sequence[bool]  # whether it is the text's own image
    place: int  # of the first match in the ranking, from 1
    among: int  # images ranked


@dataclass(frozen=True)
class ImageQuery:
    """An image and the texts found for it, closest first."""

    image: np.ndarray  # uint8 [H, W, 3]
    texts: Sequence[str]
    correct: Sequence[bool]
    similarity: Sequence[float]
    labelled: Sequence[bool]
    place: int
    among: int  # texts ranked


@dataclass(frozen=True)
class ExampleSets:
    """Queries the model answers well and badly."""

    best_texts: Sequence[TextQuery] = ()
    worst_texts: Sequence[TextQuery] = ()
    best_images: Sequence[ImageQuery] = ()
    worst_images: Sequence[ImageQuery] = ()

    def __bool__(self) -> bool:
        return any((self.best_texts, self.worst_texts, self.best_images, self.worst_images))


@dataclass(frozen=True)
class Confusion:
    """How often images of each class (row) were taken for each class (column)."""

    counts: np.ndarray  # [C, C]
    classes: Sequence[str]

    def rows(self) -> list[tuple[str, list[tuple[int, float]]]]:
        """Class and, for each column, the count and its share of the row."""
        totals = np.maximum(self.counts.sum(axis=1, keepdims=True), 1)
        cells = zip(self.counts.tolist(), (self.counts / totals).tolist(), strict=True)
        return [
            (name, list(zip(counts, shares, strict=True)))
            for name, (counts, shares) in zip(self.classes, cells, strict=True)
        ]


def write_report(
    folder: Path,
    *,
    title: str,
    facts: Mapping[str, str],
    table_toml: str,
    metrics: Sequence[Mapping[str, Any]],
    results: Mapping[str, Numbers],
    chance: Mapping[str, Numbers],
    examples: ExampleSets,
    bibliography: str,
    confusion: Confusion | None = None,
    clamp: float | None = None,
    course: str = "",
    robustness: Robustness | None = None,
    comparison: Comparison | None = None,
    cleaning: Mapping[str, Any] | None = None,
    space: Sequence[Mapping[str, Any]] = (),
    captions: Sequence[Any] = (),
) -> Path:
    """Write `report.html` into `folder`.

    `facts` are shown as they come (command, recipe, seed, ...); `metrics` are the records of metrics.jsonl, whose
    "logit_scale" is exp(t) and whose largest allowed value is `clamp`; `course` says how it went;
    `results` and `chance` hold numbers by the evaluation's name; `robustness` is of a model that another one became,
    `comparison` that of a run that fine-tunes; `cleaning` is a sentence and rows on the pairs that were dropped;
    `space` are charts of how the points lie (`space_charts.py`), `captions` what the model wrote (`captions.py`).
    """
    text = page(
        REPORT,
        title=tuned_title(comparison) if comparison else title,
        kind="fine-tuning" if comparison else "run",
        facts={"run": title, **facts} if comparison else facts,
        recipe=table_toml,
        verdict=tuned_verdict(comparison) if comparison else verdict(results, chance),
        headlines=headlines(results, chance, numbers_before(comparison) if comparison else {}),
        curves=curves(metrics, clamp, course),
        evaluations={name: grouped(numbers, chance.get(name, {})) for name, numbers in results.items()},
        tables={name: rows for name, numbers in results.items() if (rows := own_table(name, numbers))},
        glossary=glossary(results),
        examples=examples,
        space=space,
        modal="modal_retrieval" in results or "subsets" in results,
        captions=captions,
        tuning=section(comparison) if comparison else None,
        cleaning=cleaning,
        confusion=confusion,
        changes=[] if robustness is None else [COLUMNS, *robustness.rows()],
        bibliography=bibliography.strip(),
    )
    path = folder / REPORT
    write_text(path, text)
    return path


def verdict(results: Mapping[str, Numbers], chance: Mapping[str, Numbers]) -> str:
    """One sentence: how good the model is, beside guessing."""
    for name, numbers in results.items():
        value, guess = numbers.get("text_to_image_R@1"), chance.get(name, {}).get("text_to_image_R@1")
        if value is None:
            continue
        if guess is None:
            return f"Given a caption, the model ranks its own picture first in {percent(value)} of cases."
        among = f"given a caption, the model ranks its own picture first among {round(1 / guess):,}"
        if _is_above(value, guess, numbers.get("text_to_image_queries")):
            return f"It learned: {among} in {percent(value)} of cases. Guessing would manage {percent(guess)}."
        return (
            f"It has not learned yet: {among} in {percent(value)} of cases, no better than guessing ({percent(guess)})."
        )
    if told := _subsets_verdict(results.get("subsets", {}), chance.get("subsets", {})):
        return told
    return _class_verdict(results.get("zero_shot", {}), chance.get("zero_shot", {}))


def _subsets_verdict(numbers: Numbers, chance: Numbers) -> str:
    if MEAN not in numbers or MEAN not in chance:
        return ""
    known = {name: value for name, value in numbers.items() if name.endswith("_accuracy") and by_codes(name)}
    best = max(known, key=known.__getitem__)
    return (
        f"Given some or all of its modalities, the model tells {percent(numbers[MEAN])} of labels right on average; "
        f"with {metric(best).direction}, {percent(known[best])}. Guessing would manage {percent(chance[MEAN])}."
    )


def _class_verdict(numbers: Numbers, chance: Numbers) -> str:
    if "acc1" not in numbers or "acc1" not in chance:
        return "This run has no retrieval numbers yet."
    among = f"the class of a picture is recognised among {round(1 / chance['acc1']):,} in {percent(numbers['acc1'])}"
    return f"By prompts alone, {among} of cases. Guessing would manage {percent(chance['acc1'])}."


def _is_above(value: float, guess: float, queries: float | None) -> bool:
    """Whether a share beats chance by more than three standard errors of guessing."""
    return value > guess + 3 * math.sqrt(guess * (1 - guess) / (queries or 1 / guess))


def headlines(
    results: Mapping[str, Numbers], chance: Mapping[str, Numbers], before: Numbers | None = None
) -> list[dict[str, str]]:
    """The few numbers to see first, each from the first evaluation that has it; `before` are those of a start model."""
    tiles = []
    for key in HEADLINES:
        name = next((name for name, numbers in results.items() if key in numbers), None)
        if name is not None:
            known, guess = metric(key), chance.get(name, {}).get(key)
            plain = f"zero-shot {known.short}" if name == "zero_shot" else known.short
            label = f"{known.short}, {known.direction}" if known.direction else plain
            former = f"before {percent(before[key])}" if before and key in before else ""
            beside = ", ".join(filter(None, (former, "" if guess is None else f"chance {percent(guess)}")))
            tiles.append({"label": label, "value": percent(results[name][key]), "beside": beside, "of": name})
    return tiles


def grouped(numbers: Numbers, chance: Numbers) -> dict[str, list[dict[str, Any]]]:
    """Rows of a results table by direction; shares carry their place on a bar."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for name, value in numbers.items():
        known, guess = metric(name), chance.get(name)
        row = {"metric": known, "name": name, "value": known.show(value), "chance": "", "bar": None, "tick": None}
        if known.is_share:
            row["bar"] = 100 * value
        if guess is not None:
            row["chance"] = known.show(guess)
            row["tick"] = 100 * guess if known.is_share else None
        groups.setdefault(known.direction, []).append(row)
    return groups


def own_table(name: str, numbers: Numbers) -> list[tuple[str, ...]]:
    """Head and rows of the table that an evaluation shows instead of lists; none where it shows lists."""
    found = EVALUATIONS[name].table(numbers) if name in EVALUATIONS else None
    return [found[0], *found[1]] if found else []


def glossary(results: Mapping[str, Numbers]) -> dict[str, str]:
    """What the metrics of these results mean, each once."""
    known = (metric(name) for numbers in results.values() for name in numbers)
    return {one.short: one.meaning for one in known if one.meaning}


def curves(records: Sequence[Mapping[str, Any]], clamp: float | None, course: str = "") -> list[dict[str, Any]]:
    """The charts these records can fill, as SVG."""
    from markupsafe import Markup

    drawn = ((chart, plots.draw(chart, records)) for chart in charts(clamp, course))
    return [
        {"title": chart.title, "note": chart.note, "svg": Markup(svg(figure, f"Curve: {chart.title}"))}
        for chart, figure in drawn
        if figure is not None
    ]
