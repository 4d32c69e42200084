"""Oh et al. 2023, "Geodesic Multi-Modal Mixup for Robust Fine-Tuning": m²-Mix and m³-Mix.

The start is a model of upright scenes, fine-tuned on 1,000 scenes whose things lie at any angle: it has something to
lose and something to learn, and the preconditions say so. Mixups are not divided by the epoch, which in a few epochs
would leave next to nothing of them.
"""

from __future__ import annotations

from equipoise.claims.arenas import SHOTS, TUNED
from equipoise.claims.claim import Claim, Curves, Row
from equipoise.claims.rule import Part, Precondition, ahead, gains_more

PAPER = "oh2023geodesic"
WHOLE = "objective.per_epoch=false"
FT = TUNED
M2 = TUNED.plus("m²-Mix", "objective.name=m2mix", WHOLE)
M3 = TUNED.plus("m³-Mix", "objective.name=m3mix", WHOLE)
HOT = TUNED.plus("FT, τ = 0.05", "finetuning.tau=0.05")
LEARNS = Precondition("the start has something to learn", "start former R@1", (("FT", 1.0),), least=20.0)
LEARNS_HOT = Precondition(LEARNS.says, LEARNS.metric, (("FT, τ = 0.05", 1.0),), least=20.0)
GAP = Precondition("fine-tuning has room", "start R@1", (("FT", 1.0),), least=3.0, most=90.0)
GAPS = {"τ = 0.01": 0.01, "τ = 0.05": 0.05, "τ = 0.2": 0.2}
FEW_FT = SHOTS
FEW_M2 = SHOTS.plus("m²-Mix", "objective.name=few_shot_m2", WHOLE)
ALPHAS = (0.1, 0.5, 2.0)
FEW_SHOTS_TEACH = (
    Precondition("fine-tuning does not fall to chance", "accuracy", (("FT", 1.0),), least=20.0, most=97.0),
    Precondition("plain fine-tuning is above its start", "gained accuracy", (("FT", 1.0),), least=1.0),
)


def alpha(value: float) -> Row:
    return FEW_M2.plus(f"m², α = {value:g}", f"objective.m2_alpha=[{value}, {value}]")


DOSES = tuple(
    row
    for name, tau in GAPS.items()
    for row in (
        FT.plus(f"FT, {name}", f"finetuning.tau={tau}", sweep=((),)),
        M2.plus(f"m², {name}", f"finetuning.tau={tau}", sweep=((),)),
    )
)

CLAIMS: dict[str, Claim] = {
    "m2-beats-ft": Claim(
        PAPER, "main paper, cross-modal retrieval", "Fine-tuning with m²-Mix retrieves better than without.",
        metric="tuned R@1", chooses="tuned R@1", rows=(FT, M2), parts=(ahead("m²-Mix", "FT", "tuned R@1"),),
        preconditions=(LEARNS, GAP), shown=("start R@1", "former R@1", "uniformity", "mixed above"),
    ),
    "m3-beats-m2": Claim(
        PAPER, "main paper, cross-modal retrieval", "All four mixups together retrieve better than m²-Mix alone.",
        metric="tuned R@1", chooses="tuned R@1", rows=(FT, M2, M3),
        parts=(ahead("m³-Mix", "m²-Mix", "tuned R@1"), ahead("m³-Mix", "FT", "tuned R@1")),
        preconditions=(LEARNS, GAP), shown=("former R@1", "uniformity"),
    ),
    "m2-raises-uniformity": Claim(
        PAPER, "Prop. D.2; Fig. 16 and 17", "m²-Mix spreads the points: uniformity rises.", metric="uniformity",
        chooses="tuned R@1", rows=(FT, M2), parts=(ahead("m²-Mix", "FT", "uniformity", 0.02),),
        preconditions=(LEARNS,), shown=("tuned R@1", "mixed above"),
    ),
    "mixed-negatives-are-hard": Claim(
        PAPER, "App. C.4, Fig. 12 to 15",
        "Nearly all mixed negatives are closer to an image than its own text is, and far more than original ones.",
        "near 1 early in training", metric="mixed above", chooses="tuned R@1", rows=(M2,),
        parts=(
            Part("most mixed negatives are above the positive", "mixed above", (("m²-Mix", 1.0),), 5.0, constant=50.0),
        ),
        shown=("negatives above", "tuned R@1"),
    ),
    "m2-forgets-less": Claim(
        PAPER, "main paper, robust fine-tuning", "A model fine-tuned with m²-Mix keeps more of what it knew.",
        metric="former R@1", chooses="tuned R@1", rows=(FT, M2), parts=(ahead("m²-Mix", "FT", "former R@1"),),
        preconditions=(LEARNS,),
        shown=("tuned R@1", "start former R@1"),
    ),
    "m2-dose-response": Claim(
        PAPER, "App. C.4",
        "The gain of m²-Mix grows with the share of mixed negatives above the positive (opened here by τ).",
        metric="tuned R@1", chooses="tuned R@1", rows=DOSES,
        parts=(
            gains_more(("m², τ = 0.01", "FT, τ = 0.01"), ("m², τ = 0.2", "FT, τ = 0.2"), "tuned R@1",
                       says="m²-Mix gains more where more mixed negatives are above the positive"),
        ),
        preconditions=(
            LEARNS_HOT,
            Precondition("more mixed negatives are above the positive at τ = 0.01 than at 0.2", "mixed above",
                         (("m², τ = 0.01", 1.0), ("m², τ = 0.2", -1.0)), least=10.0),
        ),
        shown=("mixed above", "uniformity"),
        curves=Curves("mixed above", gains=tuple((f"m², {name}", f"FT, {name}") for name in GAPS)),
    ),
    "hot-ft-is-enough": Claim(
        PAPER, "main paper, fine-tuning with other temperatures",
        "A higher temperature alone, τ = 0.05, already improves fine-tuning.",
        metric="tuned R@1", chooses="tuned R@1", rows=(FT, HOT), parts=(ahead("FT, τ = 0.05", "FT", "tuned R@1"),),
        preconditions=(LEARNS, GAP), shown=("former R@1", "uniformity"),
    ),
    "m2-few-shot": Claim(
        PAPER, "Table 11", "With 16 pictures of a class, m²-Mix beats plain fine-tuning.",
        "Aircraft 60.6 to 69.1, Cars 88.6 to 90.4", metric="accuracy", chooses="accuracy", rows=(FEW_FT, FEW_M2),
        parts=(ahead("m²-Mix", "FT", "accuracy"),),
        preconditions=FEW_SHOTS_TEACH,
        shown=("start accuracy",),
    ),
    "m2-any-alpha": Claim(
        PAPER, "Fig. 9 and 10", "m²-Mix beats plain fine-tuning at every α, the more the smaller α.",
        metric="accuracy", chooses="accuracy", rows=(FEW_FT, *(alpha(value) for value in ALPHAS)),
        parts=(
            *(ahead(f"m², α = {value:g}", "FT", "accuracy") for value in ALPHAS),
            ahead("m², α = 0.1", "m², α = 2", "accuracy"),
        ),
        preconditions=FEW_SHOTS_TEACH,
    ),
    "m2-on-mosei": Claim(
        PAPER, "Table 12", "m²-Mix improves GMC on CMU-MOSEI when modalities are missing.",
        "F1 of text and video 77.5 to 78.1",
        not_testable="CMU-MOSEI is not at hand; docs/modalities.md has the same rows on CMU-MOSI",
    ),
}  # fmt: skip
