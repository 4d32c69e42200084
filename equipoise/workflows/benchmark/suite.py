"""Which sets a benchmark runs: a suite by name, one set, or a TOML file with sets of one's own.

    [coco-dev]
    task = "retrieval"                                             # retrieval, zero-shot, instances, copies
    data = "coco_128/dev-000.tar"                                  # below --data
    relevance.eccv = "eccv_caption/eccv_image_to_caption.json"     # or a CSV of image_id, caption_id, grade

    [cifar10-small]
    task = "zero-shot"
    data = "cifar10_test2k"
    classes = "cifar10"                                            # whose names and prompts; else those of the data

Other keys are those of `data/benchmark_sets/set_spec.py`: main, folds, captions, annotations, grades, shift_of.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from equipoise.data.benchmark_sets import SETS, SUITES, SetSpec
from equipoise.data.benchmark_sets.set_spec import TASKS, ZERO_SHOT
from equipoise.settings.nearby import nearest
from equipoise.types import UserError

TEXTS, NUMBERS, TABLES = (
    ("data", "main", "classes", "annotations", "shift_of"),
    ("folds", "captions"),
    ("relevance", "grades"),
)
KEYS = ("task", *TEXTS, *NUMBERS, *TABLES)


def read_suite(word: str) -> dict[str, SetSpec]:
    """Sets by name; raises UserError for a word that names none."""
    if word in SUITES:
        return {name: SETS[name] for name in SUITES[word]}
    if word in SETS:
        return {word: SETS[word]}
    if not word.endswith(".toml"):
        near = nearest(word, [*SUITES, *SETS])
        hint = f"did you mean {near}?" if near else f"choose {', '.join(SUITES)}, a set's name, or a file.toml"
        raise UserError(f'there is no suite "{word}"; {hint}')
    return _read(Path(word))


def _read(file: Path) -> dict[str, SetSpec]:
    try:
        content = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"{file} cannot be read: {error.strerror}; give a suite, or a file that is there") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{file} is no TOML: {error}") from None
    if not content:
        raise UserError(f"{file} names no set; write a table [NAME] with task and data")
    specs = {name: _spec(name, fields, file) for name, fields in content.items()}
    for name, spec in specs.items():
        of = specs.get(spec.shift_of)
        if spec.shift_of and (of is None or of is spec or {of.task, spec.task} != {ZERO_SHOT}):
            raise UserError(
                f'{file}, [{name}]: shift_of = "{spec.shift_of}" must name another set of this file; both of the task '
                f"{ZERO_SHOT}"
            )
    return specs


def _spec(name: str, fields: Any, file: Path) -> SetSpec:
    where = f"{file}, [{name}]"
    if not isinstance(fields, dict):
        raise UserError(f"{where}: this is no table; write [{name}] with task and data below it")
    if strange := next((key for key in fields if key not in KEYS), None):
        near = nearest(strange, KEYS)
        raise UserError(f'{where}: "{strange}" is unknown; {f"did you mean {near}?" if near else ", ".join(KEYS)}')
    for key in ("task", "data"):
        if key not in fields:
            raise UserError(f"{where}: {key} is missing; give it")
    if fields["task"] not in TASKS:
        raise UserError(f"{where}: task is {fields['task']!r}; choose one of {', '.join(TASKS)}")
    _check(fields, where)
    known = {key: value for key, value in fields.items() if key != "data"}
    return SetSpec(folders=(fields["data"],), **known)


def _check(fields: Mapping[str, Any], where: str) -> None:
    for key in TEXTS:
        if not isinstance(fields.get(key, ""), str):
            raise UserError(f"{where}: {key} must be text")
    for key, least in zip(NUMBERS, (1, 0), strict=True):
        value = fields.get(key, least)
        if type(value) is not int or value < least:
            raise UserError(f"{where}: {key} must be a whole number from {least}, not {value!r}")
    for key in TABLES:
        table = fields.get(key, {})
        if not isinstance(table, dict) or not all(isinstance(value, str) for value in table.values()):
            raise UserError(f"{where}: {key} must be files by name, such as {key}.mine = 'pairs.csv'")
    if strange := next((kind for kind in fields.get("grades", {}) if kind not in ("sits", "sis", "sts")), None):
        raise UserError(f"{where}: grades.{strange} is unknown; choose sits, sis, sts")
    if fields.get("folds", 1) > 1 and fields.get("relevance"):
        raise UserError(f"{where}: folds are ranked by labelled pairs alone; leave out folds or relevance")
