"""Which classes of a set a shift of it has: ImageNet-A and -R have 200 of ImageNet's 1,000.

Models choose among these 200 there (Hendrycks et al. 2021, "Natural Adversarial Examples" and "The Many Faces of
Robustness"), and what accuracy on them is held against is ImageNet's among the same 200 (Taori et al. 2020), so that
the task is equally hard on both sides.
"""

from __future__ import annotations

from collections.abc import Mapping

from equipoise.data.benchmark_sets.class_set import ClassSet
from equipoise.data.benchmark_sets.class_words import PART_OF, class_words
from equipoise.data.benchmark_sets.set_spec import SetSpec

Numbers = tuple[int, ...]


def among(whole: str, part: str) -> str:
    """The name of a set's accuracy among the classes of a shift, in tables and in files of baselines."""
    return f"{whole}:{part}"


def class_parts(specs: Mapping[str, SetSpec], sets: Mapping[str, object]) -> dict[str, dict[str, Numbers]]:
    """By set, by shift of it with fewer classes: the numbers that these have in the whole set, in the shift's order."""
    found: dict[str, dict[str, Numbers]] = {}
    for name, spec in specs.items():
        whole, part = sets.get(spec.shift_of), sets[name]
        if isinstance(whole, ClassSet) and isinstance(part, ClassSet):
            numbers = _numbers(specs[spec.shift_of], spec, whole, part)
            if numbers and len(numbers) < len(whole.names):
                found.setdefault(spec.shift_of, {})[name] = numbers
    return found


def _numbers(of: SetSpec, spec: SetSpec, whole: ClassSet, part: ClassSet) -> Numbers:
    """By wnids where both are ImageNet's, where two classes are a "missile"; else by names. () where none fit."""
    if spec.classes in PART_OF and PART_OF[spec.classes] == of.classes:
        words, some = class_words(of.classes), class_words(spec.classes)
        if (len(whole.names), len(part.names)) == (len(words.names), len(some.names)):
            return tuple(words.wnids.index(wnid) for wnid in some.wnids)
    known = {name: number for number, name in enumerate(whole.names)}
    plain = len(known) == len(whole.names) and len(set(part.names)) == len(part.names)
    return tuple(known[name] for name in part.names) if plain and set(part.names) <= set(known) else ()
