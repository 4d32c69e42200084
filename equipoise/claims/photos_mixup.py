"""Claims of Oh et al. 2023 on heads of frozen features, trained on noisy pairs and fine-tuned on clean ones.

The start are two linear heads trained with 40% of the captions handed to other pictures, once for all seeds; they are
fine-tuned on the same pictures with their own captions. Towers do not move here, so nothing of them is forgotten: only
retrieval and uniformity are asked.
"""

from __future__ import annotations

from equipoise.claims.arenas import EXACT
from equipoise.claims.claim import Claim, OneStart, Row
from equipoise.claims.mixup import PAPER, WHOLE
from equipoise.claims.photos import ALL, FEATURES, HEADS
from equipoise.claims.rule import Precondition, ahead

START = OneStart("features", (*ALL.settings, "seed=0", "shuffle.seed=0"), HEADS.small)
FT = Row(
    "FT",
    "features",
    (*(f"data.{name.removesuffix('.npz')}={{features}}/{name}" for name in FEATURES), *EXACT, "training.steps=100",
     "training.batch_size=500", "training.warmup_steps=10", "training.learning_rate=1e-3", "training.evaluate_every=50",
     "training.checkpoint_every=100", "training.log_every=10", "training.loggers=[]", "finetuning.wise=false"),
    small=("training.steps=4", "training.evaluate_every=2", "training.warmup_steps=1", "training.batch_size=16"),
    sweep=(("training.learning_rate=3e-4",), ("training.learning_rate=1e-3",), ("training.learning_rate=3e-3",)),
    kind="finetune",
    method="ft",
    start=START,
    seeded=("seed",),
)  # fmt: skip
M2 = FT.plus("m²-Mix", "objective.name=m2mix", WHOLE)
M3 = FT.plus("m³-Mix", "objective.name=m3mix", WHOLE)
ROOM = Precondition("the start is neither at chance nor at its ceiling", "start R@1", (("FT", 1.0),), 2.0, 90.0)
GAINS = Precondition("plain fine-tuning is above its start", "gained R@1", (("FT", 1.0),), least=0.5)
METRIC = "tuned R@1"

CLAIMS: dict[str, Claim] = {
    "photos-m2-beats-ft": Claim(
        PAPER, "main paper, cross-modal retrieval, on frozen features of photographs",
        "Fine-tuning with m²-Mix retrieves better than without.", metric=METRIC, chooses=METRIC, rows=(FT, M2),
        parts=(ahead("m²-Mix", "FT", METRIC, 0.5),), preconditions=(ROOM, GAINS),
        shown=("start R@1", "uniformity", "mixed above"), features=FEATURES,
    ),
    "photos-m2-raises-uniformity": Claim(
        PAPER, "Prop. D.2; Fig. 16 and 17, on frozen features of photographs",
        "m²-Mix spreads the points: uniformity rises.", metric="uniformity", chooses=METRIC, rows=(FT, M2),
        parts=(ahead("m²-Mix", "FT", "uniformity", 0.02),), preconditions=(ROOM,), shown=(METRIC, "mixed above"),
        features=FEATURES,
    ),
    "photos-m3-beats-m2": Claim(
        PAPER, "main paper, cross-modal retrieval, on frozen features of photographs",
        "All four mixups together retrieve better than m²-Mix alone.", metric=METRIC, chooses=METRIC,
        rows=(FT, M2, M3), parts=(ahead("m³-Mix", "m²-Mix", METRIC, 0.5), ahead("m³-Mix", "FT", METRIC, 0.5)),
        preconditions=(ROOM, GAINS), shown=("uniformity",), features=FEATURES,
    ),
}  # fmt: skip
