"""A page from its template: in one style, every value escaped, for captions come from the web."""

from __future__ import annotations

import base64
import io
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image

from equipoise.evaluation.metrics import percent

if TYPE_CHECKING:
    from jinja2 import Template


def page(template: str, **values: Any) -> str:
    """The template of that name, filled in."""
    from markupsafe import Markup

    ours = {"style": Markup(part("style.css")), "brand": Markup(part("mark.svg"))}
    return _compiled(template).render(**ours, **values)


@cache
def _compiled(template: str) -> Template:
    from jinja2 import Environment, StrictUndefined

    made = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    made.filters.update(picture=picture, percent=percent)
    return made.from_string(part(template))


def part(name: str) -> str:
    """A file beside the templates, without its last newline."""
    return (files("equipoise.reports") / name).read_text(encoding="utf-8").rstrip("\n")


def picture(image: np.ndarray) -> str:
    """An image as a data URI."""
    buffer = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(image, dtype=np.uint8)).save(buffer, format="PNG")
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode("ascii")
