"""Choosing a component by name.

A folder lists its components in one literal dict, name -> dataclass (or an instance of it: a preset).
A dataclass that has such a component as a part declares it with `choice`:

    @dataclass(frozen=True)
    class CLIP:
        target: Target = choice(TARGETS, "one_hot")

`choices` declares any number of such parts, each under a name that the recipe gives it.

In a recipe the part is a table whose `name` picks the entry; its other keys are the fields of that dataclass.
`config.py` reads these declarations; no component ever imports `config.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

CHOICES = "choices"
DEFAULT = "default"
MANY = "many"


def choice(options: Mapping[str, Any], default: str) -> Any:
    """A dataclass field whose value is one of `options`, chosen by name."""

    def make() -> Any:
        option = options[default]
        return option() if isinstance(option, type) else option

    return field(default_factory=make, metadata={CHOICES: options, DEFAULT: default})


def choices(options: Mapping[str, Any], default: str) -> Any:
    """A dataclass field that holds any number of `options` by names of their own, each chosen by its key `name`."""
    return field(default_factory=dict, metadata={CHOICES: options, DEFAULT: default, MANY: True})
