"""Choosing a component by name.

A folder lists its components in one literal dict, name -> dataclass (or an instance of it: a preset).
A dataclass that has such a component as a part declares it with `choice`:

    @dataclass(frozen=True)
    class CLIP:
        target: Target = choice(TARGETS, "one_hot")

`choices` declares any number of such parts, each under a name that the recipe gives it.

In Python the part may be given by its name, too, where the class calls `choose_by_name` in its `__post_init__`.
In a recipe the part is a table whose `name` picks the entry; its other keys are the fields of that dataclass.
`config.py` reads these declarations; no component ever imports `config.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, fields
from typing import Any

from equipoise.types import UserError

CHOICES = "choices"
DEFAULT = "default"
MANY = "many"


def choice(options: Mapping[str, Any], default: str) -> Any:
    """A dataclass field whose value is one of `options`, chosen by name."""

    return field(default_factory=lambda: named(options, default), metadata={CHOICES: options, DEFAULT: default})


def named(options: Mapping[str, Any], name: str) -> Any:
    """The component of this name."""
    option = options[name]
    return option() if isinstance(option, type) else option


def choose_by_name(component: Any) -> None:
    """Put components in place of names in the fields of a (frozen) dataclass that `choice` declared."""
    for part in fields(component):
        options, value = part.metadata.get(CHOICES), getattr(component, part.name)
        if options is None or not isinstance(value, str):
            continue
        if value not in options:
            raise UserError(f"{part.name} must be one of {', '.join(options)}, not {value!r}")
        object.__setattr__(component, part.name, named(options, value))


def choices(options: Mapping[str, Any], default: str) -> Any:
    """A dataclass field that holds any number of `options` by names of their own, each chosen by its key `name`."""
    return field(default_factory=dict, metadata={CHOICES: options, DEFAULT: default, MANY: True})
