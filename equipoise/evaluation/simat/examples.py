"""SIMAT's results per transformation: a JSON table, and a sheet of example pictures."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from equipoise.data.contact_sheet import contact_sheet
from equipoise.data.simat_questions import DEV, TEST, Transformation
from equipoise.evaluation.simat.data import SimatTask
from equipoise.evaluation.simat.score import Answers
from equipoise.evaluation.simat.sweep import SimatSweep
from equipoise.io.atomic import write_text

SHEET, TABLE = "simat-examples.png", "found.json"
SIZE = 160  # pixels of a picture on the sheet


def write_found(task: SimatTask, found: dict[str, SimatSweep], place: int, out: Path) -> None:
    """Write what was found at the λ chosen, on test where there is test: all as JSON, a few as pictures."""
    split = TEST if TEST in found else DEV
    questions, answers = task.questions.of(split), found[split].answers[place]
    keys = task.questions.keys
    records = [
        {"transfo_id": one.number, "source": keys[one.source], "value": one.value, "target": one.target,
         "found": keys[at], "right": right}
        for one, at, right in zip(questions, answers.found.tolist(), answers.right.tolist(), strict=True)
    ]  # fmt: skip
    write_text(out / TABLE, json.dumps(records, indent=0, ensure_ascii=False) + "\n")
    if task.can_be_seen:
        _draw(task, questions, answers, out / SHEET)
    print(f"What was found is in {TABLE}{f', examples of it in {SHEET}' if task.can_be_seen else ''}")


def _draw(task: SimatTask, questions: Sequence[Transformation], answers: Answers, path: Path) -> None:
    """The first of each field that is right, and the first that is wrong: source and what was found side by side."""
    places, right = answers.found.tolist(), answers.right.tolist()
    examples: dict[tuple[str, bool], int] = {}
    for number, one in enumerate(questions):
        examples.setdefault((one.field, not right[number]), number)
    shown, captions = [], []
    for _, number in sorted(examples.items()):
        one, found = questions[number], places[number]
        before, after = (task.source.pair(index).captions[0] for index in (one.source, found))
        target = task.questions.captions[one.caption]
        shown += [one.source, found]
        captions += [
            [before, f"{one.value} -> {one.target}"],
            [after, "right" if right[number] else f"wrong, for it is not {target}"],
        ]
    contact_sheet(task.source.images(shown, SIZE), captions, path)
