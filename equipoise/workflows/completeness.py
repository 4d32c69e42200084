"""`equipoise completeness`: does a model notice that a sentence leaves something out?"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path, PurePosixPath

from equipoise.data.files.coco import read_objects
from equipoise.data.rng import python_random
from equipoise.data.scenes.annotation import has_scene
from equipoise.data.source import Pair
from equipoise.evaluation.completeness import (
    TEMPLATE,
    Completeness,
    SentencePair,
    added,
    balanced,
    completeness,
    judged,
    left_out,
)
from equipoise.evaluation.completeness_scenes import scene_contrasts
from equipoise.evaluation.metrics import percent
from equipoise.io.atomic import write_text
from equipoise.io.numbers import hand_over
from equipoise.io.tables import make_table, print_tables
from equipoise.types import UserError
from equipoise.workflows.subject import Subject


def probe_completeness(subject: Subject, objects: Path | None, template: str, out: Path | None) -> list[Completeness]:
    """Measure, print, and write JSON to `out` if there is one."""
    source = subject.source()
    pairs = [source.pair(index) for index in range(len(source))]
    contrasts = contrasts_of(pairs, objects, template, subject.seed)
    found = completeness(contrasts, judged(subject.model(), source, contrasts))
    _print(found)
    numbers = {"chance": 0.5, "balanced": balanced(found), "found": [asdict(one) for one in found]}
    hand_over({**subject.facts(), **numbers})
    if out is not None:
        record = {**subject.facts(), "objects": str(objects or ""), **numbers}
        write_text(out / "completeness.json", json.dumps(record, indent=2, ensure_ascii=False) + "\n")
        print(f"\nThe results are in {out / 'completeness.json'}")
    return found


def contrasts_of(pairs: Sequence[Pair], objects: Path | None, template: str, seed: int) -> list[SentencePair]:
    """Pairs of sentences from an annotation file, from the truth of scenes, or from the records' own tags."""
    if objects is not None:
        named = read_objects(objects)
        keys = [PurePosixPath(pair.key).stem for pair in pairs]
        if not any(key in named for key in keys):
            raise UserError(f"{objects} knows none of these pictures, such as {pairs[0].key}; it goes by file names")
        return _named([named.get(key, ()) for key in keys], template or TEMPLATE, seed)
    if not template and pairs and all(map(has_scene, pairs)):
        return [one for index, pair in enumerate(pairs) for one in scene_contrasts(index, pair, seed)]
    if not any(pair.tags for pair in pairs):
        raise UserError("nothing is known of the objects in these pictures; give --objects FILE in MSCOCO's form")
    return _named([pair.tags for pair in pairs], template or TEMPLATE, seed)


def _named(objects: Sequence[Sequence[str]], template: str, seed: int) -> list[SentencePair]:
    """Sentences without each object of a picture, and with one that other pictures of the data have."""
    known = sorted({name for names in objects for name in names})
    contrasts = []
    for index, names in enumerate(objects):
        contrasts += left_out(index, names, template)
        contrasts += added(index, names, known, python_random(seed, "completeness", index, "add"), template)
    return contrasts


def _print(found: Sequence[Completeness]) -> None:
    rows = [
        (one.kind, str(one.objects or "all"), percent(one.right), percent(one.error), f"{one.pairs:,}") for one in found
    ]
    totals = [number for number, one in enumerate(found) if not one.objects]
    title = "the complete sentence is the closer one (guessing: 50%)"
    print_tables(make_table(("the other", "objects", "right", "± error", "pairs"), rows, title=title, bold=totals))
    if (both := balanced(found)) is not None:
        print(f"left out and added together: {percent(both)} (who goes by the length of sentences: 50%)")
