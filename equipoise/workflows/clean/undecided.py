"""A run whose pairs were judged while it trained, by judges that know nothing even at its end: nothing was decided.

Every pair counted in full then, so the model is that of all pairs. There is no keep file; what is known is read off the
evidence that the run keeps to go on from (`moving_evidence.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from equipoise.data.keep.settings import Clean
from equipoise.workflows.clean.moving_evidence import stored
from equipoise.workflows.clean.probability import LONGER
from equipoise.workflows.clean.summary import judging_cost


def undecided(folder: Path) -> str:
    """The sentence that says so; empty where nobody judged, or a judge knows something."""
    known = stored(folder)
    if known is None or not known[1].knows_nothing:
        return ""
    said = known[1].knows_nothing
    return (
        f"{said[:1].upper()}{said[1:]}: nothing was decided, there is no keep file, and the model was trained on all "
        f"pairs, each counted in full; {LONGER}, or on features of a model that was trained before (docs/clean.md)"
    )


def undecided_section(
    settings: Clean, folder: Path, training_seconds: float, bought: Sequence[tuple[str, str, str]] = ()
) -> dict[str, Any] | None:
    """What the report says of it, like `cleaning_section`; None for a run that it does not apply to."""
    sentence = undecided(folder) if settings.enabled and settings.online else ""
    if not sentence:
        return None
    rows = {"cost": f"{judging_cost(folder)}, {training_seconds:.0f} s of training the model"}
    return {"sentence": f"{sentence}.", "rows": rows, "bought": bought, "decide": None}
