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
from equipoise.workflows.audit.stopwatch import JUDGING, READING, TRAINING, seconds_spent
from equipoise.workflows.clean.by_hand import ByHand

TRUTH = {
    "wrong": "captions that are wrong, as the data knows",
    "wrong_among_kept": "wrong ones among those kept",
    "right_dropped": "right ones that were dropped",
    "auroc_of_captions": "AUROC of P(right)",
    "wrong_among_rematched": "wrong ones among captions of others that took the place of dropped ones",
}


def cleaning_section(
    keep: Keep,
    training_seconds: float,
    bought: Sequence[tuple[str, str, str]] = (),
    decide: ByHand | None = None,
) -> dict[str, Any] | None:
    """The sentence and the rows of a run's report on its keep file, and what it bought, with the ways to `decide`
    by hand; None where it has none."""
    if not keep.folder:
        return None
    folder = Path(keep.folder)
    note = read_note(folder)
    aurocs = [f"{judge['auroc_of_shuffled']:.2f}" for judge in note.get("judges", ())]
    rows = {
        "decided by": _rule(keep, note.get("rule", {})),
        **_by_hand(folder),
        "judges' AUROC, pairs against shuffled ones": ", ".join(aurocs) or "not known",
        "cost": f"{judging_cost(folder)}, {training_seconds:.0f} s of training the model",
        **{TRUTH[name]: f"{value:.3f}" for name, value in note.get("truth", {}).items() if name in TRUTH},
    }
    return {"sentence": note.get("finding", ""), "rows": rows, "bought": bought, "decide": decide}


def judging_cost(folder: Path) -> str:
    """What judging took, over all interruptions; of judges at least the seconds that their steps took."""
    spent = seconds_spent(folder)
    steps = sum(_last_seconds(path) for path in sorted(folder.rglob(f"fold-*/{METRICS_FILE}")))
    training = f"{max(steps, spent.get(TRAINING, 0.0)):.0f} s of training judges"
    if not spent:  # of before it was noted
        return f"{training} (how long they judged was not noted)"
    return (
        f"{spent.get(READING, 0.0):.0f} s of looking for copies, {training}, {spent.get(JUDGING, 0.0):.0f} s of judging"
    )


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
