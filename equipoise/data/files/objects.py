"""Which objects are in which picture, from an annotation file in MSCOCO's form (instances_*.json).

images        [{"id", "file_name"}, ...]
annotations   [{"image_id", "category_id"}, ...]
categories    [{"id", "name"}, ...]
"""

from __future__ import annotations

import json
from pathlib import Path, PurePosixPath

from equipoise.types import UserError


def read_objects(path: Path) -> dict[str, tuple[str, ...]]:
    """The kinds of objects present in each picture, each once, by the picture's file name without its ending."""
    try:
        table = json.loads(path.read_text(encoding="utf-8"))
        names = {category["id"]: str(category["name"]) for category in table["categories"]}
        keys = {image["id"]: PurePosixPath(image["file_name"]).stem for image in table["images"]}
        found: dict[str, dict[str, None]] = {key: {} for key in keys.values()}
        for one in table["annotations"]:
            found[keys[one["image_id"]]][names[one["category_id"]]] = None
    except OSError as error:
        raise UserError(
            f"{path} cannot be read: {error.strerror}; give an instances_*.json of MSCOCO's form"
        ) from error
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"{path} is no file of objects in MSCOCO's form ({error!r}); see docs/codes.md") from error
    return {key: tuple(kinds) for key, kinds in found.items()}
