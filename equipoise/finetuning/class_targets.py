"""The objective of fine-tuning on data of classes: pictures of one class are no negatives of each other.

Captions of such data only name a class, so most of a batch share theirs. An objective of pairs (CLIP's, a mixup of
pairs) would push a picture away from the captions of all others of its class. Each method's objective gives way to the
same one for classes (Oh et al. 2023, App. A.2: images against the prompts of all classes), or is refused:

    clip    few_shot_plain          lp-ft, wise-ft, lora, maple and ft; coca likewise
    m2mix   few_shot_m2
    m3mix   few_shot
    other   refused, unless it says of itself that it `matches_classes`

What the command line says of the objective stands, and is refused where it would train on wrong negatives.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from equipoise.objectives import FewShot, Objective
from equipoise.settings.layers import Layer
from equipoise.types import Notice, UserError

FOR_CLASSES = {"clip": "few_shot_plain", "coca": "few_shot_plain", "m2mix": "few_shot_m2", "m3mix": "few_shot"}
KEYS = frozenset(each.name for each in fields(FewShot))


def class_layer(objective: Objective, name: str, line: Layer) -> Layer | None:
    """The layer that puts the objective for classes in place of `objective`, called `name`; None where the command
    line, `line`, says otherwise or nothing needs to be changed."""
    if objective.matches_classes or name not in FOR_CLASSES or not _fits(line.values.get("objective", {})):
        return None
    chosen = FOR_CLASSES[name]
    warnings.warn(
        f"the captions of this data are names of classes, so pictures are compared with all classes: the objective is "
        f"{chosen} in place of {name}; --set objective.name=... chooses another",
        Notice,
        stacklevel=2,
    )
    return Layer("classes", {"objective": {"name": chosen}}, {})


def require_class_targets(objective: Objective, name: str, method: str) -> None:
    """Raise UserError for an objective under which pictures of one class are each other's negatives."""
    if not objective.matches_classes:
        raise UserError(
            f"the captions of this data are names of classes, but the objective {name} of --method {method} compares "
            "pairs: pictures of one class would be each other's negatives; set objective.name to few_shot_plain, "
            "few_shot_m2 or few_shot, or objective.name to clip with objective.target.name=labels"
        )


def _fits(given: Any) -> bool:
    """Whether all that the command line says of the objective holds for one of classes too, and does not name one."""
    return isinstance(given, Mapping) and set(given) <= KEYS
