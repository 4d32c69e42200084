"""Names of classes and the prompts that put them into words."""

from __future__ import annotations

import re
from pathlib import Path

from equipoise.types import UserError

PLACE = re.compile(r"\{c?\}")  # CLIP_benchmark writes {c}
DEFAULT_TEMPLATES = ("a photo of a {}.",)


def read_lines(path: Path, what: str) -> tuple[str, ...]:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise UserError(f"{path}: the {what} cannot be read ({error.strerror}); put them there, one a line") from None
    except UnicodeDecodeError:
        raise UserError(f"{path}: the {what} are not UTF-8 text; save the file as UTF-8") from None
    lines = tuple(line.strip() for line in text.splitlines() if line.strip())
    if not lines:
        raise UserError(f"{path}: there are no {what} in this file; write one a line")
    return lines


def checked_names(names: tuple[str, ...], where: str) -> tuple[str, ...]:
    """The names of the classes, all different: a label is a name."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise UserError(f'{where}: the class "{name}" is there twice; give every class a name of its own')
        seen.add(name)
    return names


def checked_templates(templates: tuple[str, ...], where: str) -> tuple[str, ...]:
    """The templates with {} for the class's name."""
    for template in templates:
        if not PLACE.search(template):
            raise UserError(f'{where}: the template "{template}" has no place for the class\'s name; write {{}} there')
    return tuple(PLACE.sub("{}", template) for template in templates)


def filled(templates: tuple[str, ...], name: str) -> tuple[str, ...]:
    return tuple(template.replace("{}", name) for template in templates)
