"""Names and prompts of the classes of published data sets, as OpenAI's CLIP has them (`classes/NOTICE.txt`).

A class is its number, from 0: ImageNet has two classes that are called "missile", and two "sunglasses".
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

WNID = re.compile(r"n\d{8}")
PART_OF = {"imagenet-a": "imagenet1k", "imagenet-r": "imagenet1k"}  # some classes of another list, by their wnids


@dataclass(frozen=True)
class ClassWords:
    names: tuple[str, ...]
    templates: tuple[str, ...]  # with {} for the name
    wnids: tuple[str, ...] = ()  # WordNet's ids, which ImageNet's folders are called by


@cache
def class_words(name: str) -> ClassWords:
    """Names and prompts of a data set; KeyError for one whose words are not known."""
    place = files("equipoise.data.benchmark_sets") / "classes" / f"{name}.json"
    if not place.is_file():
        raise KeyError(name)
    fields = json.loads(place.read_text(encoding="utf-8"))
    if name in PART_OF:
        whole = class_words(PART_OF[name])
        names = dict(zip(whole.wnids, whole.names, strict=True))
        wnids = tuple(fields["wnids"])
        return ClassWords(tuple(names[wnid] for wnid in wnids), whole.templates, wnids)
    return ClassWords(*(tuple(fields.get(key, ())) for key in ("classes", "templates", "wnids")))


def known_words() -> tuple[str, ...]:
    """Names of the data sets whose classes are known."""
    folder = files("equipoise.data.benchmark_sets") / "classes"
    return tuple(sorted(file.name.removesuffix(".json") for file in folder.iterdir() if file.name.endswith(".json")))
