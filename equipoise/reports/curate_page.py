"""The page for curators: suspicious captions to decide on by keyboard, a threshold to move, copies side by side.

One file that works from disk. Its one script is named in the page's content policy by its hash, and no other may run.
What the script works with stands in the page as JSON in which no character can end the element around it.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from equipoise.data.keep.decisions import DECISIONS, DECISIONS_VERSION, KIND
from equipoise.io.atomic import write_text
from equipoise.reports.page import page, part

PAGE = "curate.html"
ESCAPED = {ord(sign): f"\\u{ord(sign):04x}" for sign in "<>&\u2028\u2029"}
WIDTH, HEIGHT = 720, 150  # of the histogram
MEANINGS = {
    "another": "it looks like the caption of another picture",
    "detail": "it nearly fits",
    "vague": "it fits many pictures alike",
}  # of the kinds of noise (docs/audit.md)


def write_page(
    folder: Path,
    facts: Mapping[str, Any],
    pairs: Sequence[Mapping[str, Any]],
    copies: Sequence[Mapping[str, Any]],
    strangers: Sequence[Mapping[str, Any]],
    state: Mapping[str, Any],
) -> Path:
    """Write the page and return its path."""
    from markupsafe import Markup

    script, kinds = part("curate.js"), _kinds(pairs)
    saved = {"kind": KIND, "version": DECISIONS_VERSION, "file": DECISIONS}
    content = page(
        "curate.html", **facts, pairs=pairs, shown=copies, strangers=strangers, kinds=kinds, bars=_bars(state["bars"]),
        width=WIDTH, height=HEIGHT, decisions=DECISIONS, state=Markup(safe_json({**saved, **state})),
        script=Markup(script), script_hash=base64.b64encode(sha256(script.encode()).digest()).decode("ascii"),
    )  # fmt: skip
    write_text(folder / PAGE, content)
    return folder / PAGE


def _kinds(pairs: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """What may seem wrong with a caption, and with how many of those shown it does; none where nobody asked."""
    counts = [sum(pair["kind"] == kind for pair in pairs) for kind in MEANINGS]
    named = zip(MEANINGS.items(), counts, strict=True)
    return (
        [{"name": name, "meaning": meaning, "count": count} for (name, meaning), count in named] if any(counts) else []
    )


def safe_json(value: Any) -> str:
    """JSON that may stand inside a script element: nothing in it ends the element or begins a comment."""
    return json.dumps(value, allow_nan=False).translate(ESCAPED)  # characters beyond ASCII are escaped by `dumps`


def _bars(counts: Sequence[int]) -> list[dict[str, float]]:
    """Bars of the histogram in pixels, as high as the square root of their counts, so that small ones show."""
    most = max([*counts, 1]) ** 0.5
    wide = WIDTH / len(counts)
    return [
        {
            "x": place * wide,
            "width": wide - 1.5,
            "height": HEIGHT * count**0.5 / most,
            "middle": (place + 0.5) / len(counts),
        }
        for place, count in enumerate(counts)
    ]
