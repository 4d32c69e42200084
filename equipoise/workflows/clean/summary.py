"""What a report says of cleaning: what was read, what was dropped, what it cost."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from equipoise.data.keep.decisions import DECISIONS, read_decisions
from equipoise.data.keep.file import read_keep, read_note
from equipoise.data.keep.settings import Keep
from equipoise.training.logging.metrics import METRICS_FILE

TRUTH = {
    "wrong": "captions that are wrong, as the data knows",
    "wrong_among_kept": "wrong ones among those kept",
    "right_dropped": "right ones that were dropped",
    "auroc_of_captions": "AUROC of P(right)",
    "wrong_among_rematched": "wrong ones among captions of others that took the place of dropped ones",
}


def cleaning_section(
    keep: Keep, training_seconds: float, bought: Sequence[tuple[str, str, str]] = ()
) -> dict[str, Any] | None:
    """The sentence and the rows of a run's report on its keep file, and what it bought; None where it has none."""
    if not keep.folder:
        return None
    folder = Path(keep.folder)
    note = read_note(folder)
    aurocs = [f"{judge['auroc_of_shuffled']:.2f}" for judge in note.get("judges", ())]
    rows = {
        "decided by": _rule(keep, note.get("rule", {})),
        **_by_hand(folder),
        "judges' AUROC, pairs against shuffled ones": ", ".join(aurocs) or "not known",
        "cost": f"{judging_seconds(folder):.0f} s of training judges, {training_seconds:.0f} s of training the model",
        **{TRUTH[name]: f"{value:.3f}" for name, value in note.get("truth", {}).items() if name in TRUTH},
    }
    return {"sentence": note.get("finding", ""), "rows": rows, "bought": bought}


def judging_seconds(folder: Path) -> float:
    """Seconds that the judges of a folder were trained, over all interruptions."""
    return sum(_last_seconds(path) for path in sorted(folder.rglob(f"fold-*/{METRICS_FILE}")))


def _by_hand(folder: Path) -> dict[str, str]:
    """What a person decided, where anything was."""
    if not (folder / DECISIONS).exists():
        return {}
    decisions = read_decisions(folder, read_keep(folder)[0])
    words = [f"{count:,} captions {what}" for what, count in decisions.counts().items() if count]
    words += [f"threshold {decisions.threshold:g}"] if decisions.threshold is not None else []
    return {"by hand": ", ".join(words) or "nothing"}


def _rule(keep: Keep, rule: dict[str, Any]) -> str:
    used = rule if keep.rule == "decision" else {**rule, "rule": keep.rule, "threshold": keep.threshold}
    ending = f" {used['threshold']:g}" if used.get("rule") == "threshold" else ""
    return f"{used.get('rule', 'hand')}{ending}, per {used.get('per', 'caption')}"


def _last_seconds(path: Path) -> float:
    seconds = 0.0
    for line in path.read_text(encoding="utf-8").splitlines():
        seconds = json.loads(line).get("seconds", seconds)
    return float(seconds)
