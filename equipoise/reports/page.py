"""A page from its template: in one style, every value escaped, for captions come from the web."""

from __future__ import annotations

import base64
import io
from importlib.resources import files
from typing import Any

import numpy as np
from PIL import Image

from equipoise.evaluation.metrics import percent


def page(template: str, **values: Any) -> str:
    """The template of that name, filled in."""
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    made = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    made.filters.update(picture=picture, percent=percent)
    ours = {"style": Markup(part("style.css")), "brand": Markup(part("mark.svg"))}
    return made.from_string(part(template)).render(**ours, **values)


def part(name: str) -> str:
    """A file beside the templates, without its last newline."""
    return (files("equipoise.reports") / name).read_text(encoding="utf-8").rstrip("\n")


def picture(image: np.ndarray) -> str:
    """An image as a data URI."""
    buffer = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(image, dtype=np.uint8)).save(buffer, format="PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode("ascii")
