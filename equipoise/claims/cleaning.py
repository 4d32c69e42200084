"""Our own claims: pairs judged by models that never saw them, and what training on the rest is worth."""

from __future__ import annotations

from equipoise.claims.arenas import SCENES, noisy
from equipoise.claims.claim import Claim, Row
from equipoise.claims.rule import Part, ahead, keeps, room

HERE = "docs/clean.md"
CLEANED = "clean.enabled=true"
# judges that can tell anything take a little more than two steps, and the simplest of worlds
SMALL = ("clean.steps=100", "training.batch_size=64", "data.train_size=600", "data.max_things=1",
         "data.detail_weights=[1, 0, 0]")  # fmt: skip


def pairs(share: float) -> Row:
    return SCENES.plus("all pairs", noisy(share))


def cleaned(base: Row, name: str, *settings: str) -> Row:
    seeded = (*base.seeded, "clean.seed")
    return base.plus(name, CLEANED, *settings, small=(*base.small, *SMALL), seeded=seeded)


def rows(share: float) -> tuple[Row, ...]:
    base = pairs(share)
    return (
        base.plus("no noise", noisy(0.0)),
        base,
        cleaned(base, "kept"),
        base.plus("truly right pairs", kind="right_pairs"),
    )


def halfway() -> Part:
    weights = (("kept", 1.0), ("all pairs", -0.5), ("truly right pairs", -0.5))
    return Part("more than half of the way to training on truly right pairs alone", "R@1", weights, 1.0)


BASE = pairs(0.4)
SMOOTHED = BASE.plus("label smoothing", "objective.name=clip_smoothed")
SIGMOID = BASE.plus("sigmoid", "objective.form.name=sigmoid", "objective.form.learned=true")
OWN = BASE.plus(
    "SoftCLIP, stopped", "objective.name=softclip", "objective.guide.name=image_text",
    "objective.guide.stop_gradient=true",
)  # fmt: skip

CLAIMS: dict[str, Claim] = {
    "cleaning-pays": Claim(
        "", HERE, "At 40% noise, training on what held-out judges keep beats training on all pairs, and by most of "
        "what could be gained.",
        rows=rows(0.4), parts=(ahead("kept", "all pairs"), halfway()), preconditions=(room("all pairs"),),
        shown=("mAP@R", "zero-shot", "kept wrong"),
    ),
    "cleaning-pays-at-60": Claim(
        "", HERE, "The same at 60% noise.", rows=rows(0.6), parts=(ahead("kept", "all pairs"), halfway()),
        preconditions=(room("all pairs", least=2.0),), shown=("mAP@R", "zero-shot", "kept wrong"),
    ),
    "cleaning-costs-nothing": Claim(
        "", HERE, "Where nothing is wrong, cleaning costs next to nothing.",
        rows=(pairs(0.0), cleaned(pairs(0.0), "kept")), parts=(keeps("kept", 0.95, "all pairs"),),
        preconditions=(room("all pairs"),), shown=("mAP@R", "zero-shot"),
    ),
    "held-out-judges": Claim(
        "", HERE, "Judges that never saw a pair judge it better than judges that were trained on it.",
        rows=(BASE, cleaned(BASE, "judges that saw", "clean.seen=true"), cleaned(BASE, "kept")),
        parts=(ahead("kept", "judges that saw"),), preconditions=(room("all pairs"),),
        shown=("mAP@R", "kept wrong"),
    ),
    "cleaning-beats-losses": Claim(
        "", HERE, "No robust loss gives what dropping wrong pairs gives.",
        rows=(BASE, SMOOTHED, SIGMOID, OWN, cleaned(BASE, "kept")),
        parts=tuple(ahead("kept", row.name) for row in (SMOOTHED, SIGMOID, OWN)), preconditions=(room("all pairs"),),
        shown=("mAP@R", "zero-shot"),
    ),
}  # fmt: skip
