"""Lists of choices in the docs, written from the dicts of the package: `python tests/docs_lists.py` after a change.

A list stands between `<!-- NAME: ... -->` and `<!-- end of NAME -->`, and nothing else in the file is touched.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from pathlib import Path

from equipoise.evaluation import EVALUATIONS
from equipoise.evaluation.evaluator import Evaluator

DOCS = Path(__file__).parent.parent / "docs"
DIRECTION = re.compile("^(image_to_text|text_to_image)_")


def evaluations() -> str:
    rows = [f"| `{name}` | {_sentence(one)} | {_metrics(one)} |" for name, one in EVALUATIONS.items()]
    return "\n".join(["| protocol | what it measures | metrics |", "|---|---|---|", *rows])


LISTS: dict[str, tuple[str, Callable[[], str]]] = {"evaluations": ("evaluation.md", evaluations)}


def updated(name: str) -> tuple[Path, str]:
    """The file that holds a list, and its text with the list as it is now."""
    path, text = DOCS / LISTS[name][0], LISTS[name][1]()
    marked = re.compile(rf"(<!-- {name}: [^>]*-->\n).*?(\n<!-- end of {name} -->)", re.DOTALL)
    before = path.read_text(encoding="utf-8")
    assert len(marked.findall(before)) == 1, f"{path} has no place for the list of {name}"
    return path, marked.sub(lambda match: f"{match[1]}{text}{match[2]}", before)


def stale() -> list[str]:
    """Names of the lists that the docs do not hold as they are now."""
    return [name for name in LISTS if (found := updated(name))[0].read_text(encoding="utf-8") != found[1]]


def _sentence(evaluation: Evaluator) -> str:
    return " ".join((inspect.getdoc(type(evaluation)) or "").split("\n\n")[0].split()).rstrip(".")


def _metrics(evaluation: Evaluator) -> str:
    names = dict.fromkeys(DIRECTION.sub("..._", name) for name in evaluation.metrics)
    return ", ".join(f"`{name}`" for name in names) or "named after the data"


if __name__ == "__main__":
    for name in LISTS:
        path, text = updated(name)
        path.write_text(text, encoding="utf-8")
