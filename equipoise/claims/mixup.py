"""Oh et al. 2023, "Geodesic Multi-Modal Mixup for Robust Fine-Tuning": m²-Mix and m³-Mix.

The start is `clip-scenes-gpu`, a model of upright scenes, fine-tuned on 1,000 scenes whose things lie at any angle, or
on 16 pictures of each of eight shapes at any angle: it has something to lose and something to learn, and the
preconditions say so. Mixups are not divided by the epoch, which in a few epochs would leave next to nothing of them.

How many mixed negatives lie above the positive depends on the gap between images and texts. The start's own is narrow
beside that of the paper's CLIP; the doses open it by an embedding shift of λ < 0 (`models/embedding_shift.py`), which
hardly changes what is found.
"""

from __future__ import annotations

from dataclasses import replace

from equipoise.claims.arenas import SHOTS, TUNED
from equipoise.claims.claim import Claim, Curves, Row
from equipoise.claims.rule import Part, Precondition, ahead, gains_more, room

PAPER = "oh2023geodesic"
WHOLE = "objective.per_epoch=false"
FT = TUNED
M2 = TUNED.plus("m²-Mix", "objective.name=m2mix", WHOLE)
M3 = TUNED.plus("m³-Mix", "objective.name=m3mix", WHOLE)
HOT = TUNED.plus("FT, τ = 0.05", "finetuning.tau=0.05")
SHIFTED = replace(TUNED, name="embedding shift", method="embedding-shift", sweep=((),))
KNOWS = Precondition("the start knows what it was trained on", "start former R@1", (("FT", 1.0),), least=20.0)
GAP = Precondition("fine-tuning has room", "start R@1", (("FT", 1.0),), least=3.0, most=90.0)
TEACHES = Precondition("plain fine-tuning is above its start", "gained R@1", (("FT", 1.0),), least=1.0)
AMOUNTS = (0.0, -0.5, -1.0)  # λ of the embedding shift: below 0 images and texts are moved apart
OPEN, AS_IT_IS = f"λ = {AMOUNTS[-1]:g}", f"λ = {AMOUNTS[0]:g}"
DOSE_RATES = (("training.learning_rate=1e-4",), ("training.learning_rate=3e-4",))
FEW_FT = SHOTS
FEW_M2 = SHOTS.plus("m²-Mix", "objective.name=few_shot_m2", WHOLE)
FEW_M3 = SHOTS.plus("m³-Mix", "objective.name=few_shot", WHOLE)
ALPHAS = (0.1, 0.5, 2.0)
FEW_SHOTS_TEACH = (
    Precondition("fine-tuning does not fall to chance", "accuracy", (("FT", 1.0),), least=20.0, most=97.0),
    Precondition("plain fine-tuning is above its start", "gained accuracy", (("FT", 1.0),), least=1.0),
)


def alpha(value: float) -> Row:
    return FEW_M2.plus(f"m², α = {value:g}", f"objective.m2_alpha=[{value}, {value}]")


def opened(row: Row, name: str, amount: float) -> Row:
    settings = (f"shift.amount={amount:g}", "finetuning.tau=0.01")
    return row.plus(f"{name}, λ = {amount:g}", *settings, kind="opened", sweep=DOSE_RATES)


DOSES = tuple(opened(row, name, amount) for amount in AMOUNTS for row, name in ((FT, "FT"), (M2, "m²")))
CLAIMS: dict[str, Claim] = {
    "m2-beats-ft": Claim(
        PAPER, "main paper, cross-modal retrieval", "Fine-tuning with m²-Mix retrieves better than without.",
        metric="tuned R@1", chooses="tuned R@1", rows=(FT, M2), parts=(ahead("m²-Mix", "FT", "tuned R@1"),),
        preconditions=(KNOWS, GAP, TEACHES), shown=("start R@1", "former R@1", "uniformity", "mixed above"),
    ),
    "m3-beats-m2": Claim(
        PAPER, "main paper, cross-modal retrieval", "All four mixups together retrieve better than m²-Mix alone.",
        metric="tuned R@1", chooses="tuned R@1", rows=(FT, M2, M3),
        parts=(ahead("m³-Mix", "m²-Mix", "tuned R@1"), ahead("m³-Mix", "FT", "tuned R@1")),
        preconditions=(KNOWS, GAP, TEACHES), shown=("former R@1", "uniformity"),
    ),
    "m2-raises-uniformity": Claim(
        PAPER, "Prop. D.2; Fig. 16 and 17", "m²-Mix spreads the points: uniformity rises.", metric="uniformity",
        chooses="tuned R@1", rows=(FT, M2), parts=(ahead("m²-Mix", "FT", "uniformity", 0.02),),
        preconditions=(KNOWS,), shown=("tuned R@1", "mixed above"),
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
        preconditions=(KNOWS,),
        shown=("tuned R@1", "start former R@1"),
    ),
    "m2-dose-response": Claim(
        PAPER, "App. C.4",
        "The gain of m²-Mix grows with the share of mixed negatives above the positive (by embedding shift).",
        metric="tuned R@1", chooses="tuned R@1", rows=DOSES,
        parts=(
            gains_more((f"m², {OPEN}", f"FT, {OPEN}"), (f"m², {AS_IT_IS}", f"FT, {AS_IT_IS}"), "tuned R@1",
                       says="m²-Mix gains more where more mixed negatives are above the positive"),
        ),
        preconditions=(
            replace(KNOWS, weights=((f"FT, {OPEN}", 1.0),)),
            replace(TEACHES, weights=((f"FT, {OPEN}", 1.0),)),
            Precondition(f"more mixed negatives are above the positive at {OPEN} than at {AS_IT_IS}", "mixed above",
                         ((f"m², {OPEN}", 1.0), (f"m², {AS_IT_IS}", -1.0)), least=10.0),
        ),
        shown=("start R@1", "mixed above", "uniformity"),
        curves=Curves("mixed above", gains=tuple((f"m², λ = {one:g}", f"FT, λ = {one:g}") for one in AMOUNTS)),
    ),
    "hot-ft-is-enough": Claim(
        PAPER, "main paper, fine-tuning with other temperatures",
        "A higher temperature alone, τ = 0.05, already improves fine-tuning.",
        metric="tuned R@1", chooses="tuned R@1", rows=(FT, HOT), parts=(ahead("FT, τ = 0.05", "FT", "tuned R@1"),),
        preconditions=(KNOWS, GAP, TEACHES), shown=("former R@1", "uniformity"),
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
    "m2-simat": Claim(
        PAPER, "main paper, embedding arithmetic",
        "Fine-tuned with m²-Mix or m³-Mix, embeddings can be calculated with: SIMAT's score is higher than after plain "
        "fine-tuning.",
        metric="SIMAT", chooses="tuned R@1", rows=(FT, M2, M3),
        parts=(ahead("m²-Mix", "FT", "SIMAT"), ahead("m³-Mix", "FT", "SIMAT")),
        preconditions=(
            KNOWS,
            Precondition("the start can calculate with words", "start SIMAT above chance", (("FT", 1.0),), least=3.0),
            room("FT", "SIMAT"),
        ),
        shown=("start SIMAT", "tuned R@1"),
    ),
    "m2-under-shift": Claim(
        PAPER, "main paper, classification under distribution shift",
        "Fine-tuned on 16 pictures of a class with m²-Mix or m³-Mix, a model recognises more under shifts that it was "
        "not fine-tuned on than after plain fine-tuning.",
        metric="shifted accuracy", chooses="accuracy", rows=(FEW_FT, FEW_M2, FEW_M3),
        parts=(ahead("m²-Mix", "FT", "shifted accuracy"), ahead("m³-Mix", "FT", "shifted accuracy")),
        preconditions=(*FEW_SHOTS_TEACH, room("FT", "shifted accuracy", 20.0, 97.0)),
        shown=("start shifted accuracy", "accuracy", "start accuracy"),
    ),
    "m2-retrieves-under-shift": Claim(
        PAPER, "main paper, robust fine-tuning",
        "Fine-tuned on turned scenes with m²-Mix or m³-Mix, a model retrieves better among unseen textures, "
        "backgrounds and shades than after plain fine-tuning.",
        metric="shifted R@1", chooses="tuned R@1", rows=(FT, M2, M3),
        parts=(ahead("m²-Mix", "FT", "shifted R@1"), ahead("m³-Mix", "FT", "shifted R@1")),
        preconditions=(KNOWS, TEACHES, room("FT", "shifted R@1")), shown=("start shifted R@1", "tuned R@1"),
    ),
    "embedding-shift-helps": Claim(
        PAPER, "App. A.1; main paper, ES",
        "Without any training, images and texts moved along the gap between them retrieve better than as they were.",
        metric="gained R@1", chooses="tuned R@1", rows=(SHIFTED,),
        parts=(
            Part("the shifted start is ahead of the start", "gained R@1", (("embedding shift", 1.0),), 1.0),
        ),
        preconditions=(replace(GAP, weights=(("embedding shift", 1.0),)),), shown=("start R@1", "tuned R@1"),
    ),
    "m2-on-mosei": Claim(
        PAPER, "Table 12", "m²-Mix improves GMC on CMU-MOSEI when modalities are missing.",
        "F1 of text and video 77.5 to 78.1",
        not_testable="CMU-MOSEI is not at hand; docs/modalities.md has the same rows on CMU-MOSI",
    ),
}  # fmt: skip
