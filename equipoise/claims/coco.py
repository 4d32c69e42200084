"""Claims of Oh et al. 2023 on photographs, from a start that has something to lose: ResNet-50 and MPNet tuned on COCO.

`--data FOLDER` holds coco_128, flickr8k_96, cifar10_train5k, cifar10_test2k and the towers resnet50 and
all-mpnet-base-v2 (docs/claims.md says of what). The start `coco-resnet50-mpnet` is trained once for all seeds, as the
paper has one CLIP: data that is given has no seed. It is fine-tuned on 5,474 of Flickr8k's training pictures, tried on
the other 526 and reported on its dev set; what it forgets is measured on COCO's. A seed fixes the order, the captions
drawn, crops and mixing, for few shots the pictures too. The start has τ = 0.07, near which CLIP's begins; the paper's
CLIP has 0.01, so that rows with a temperature of their own set both. Precision is the recipe's, bf16 on a GPU.
"""

from __future__ import annotations

from equipoise.claims.claim import Claim, Curves, OneStart, Row
from equipoise.claims.mixup import FEW_SHOTS_TEACH, PAPER, WHOLE
from equipoise.claims.rule import Part, Precondition, ahead, gains_more

COCO, FLICKR = "{data}/coco_128", "{data}/flickr8k_96"
RESNET, MPNET = "{data}/resnet50", "{data}/all-mpnet-base-v2"
TOWERS = ("resnet50/config.json", "all-mpnet-base-v2/tokenizer.json")
STARTS_FROM = ("coco_128/dev-000.tar", *TOWERS)
PAIRS = (*STARTS_FROM, "flickr8k_96/dev-000.tar")
CLASSES = (*STARTS_FROM, "cifar10_train5k/train-000.tar", "cifar10_test2k/test-000.tar")
FEW_STEPS = ("training.steps=2", "training.warmup_steps=1", "training.evaluate_every=2", "training.batch_size=8")
# one shard, a little of which is held out for validation and test
FEW_PAIRS = (
    "data.train=train-000.tar",
    'data.validation=""',
    'data.test=""',
    "data.validation_share=0.01",
    "evaluation.captions=1",
)
START = OneStart(
    "coco-resnet50-mpnet",
    (f"data.root={COCO}", f"image.model={RESNET}", f"text.model={MPNET}", f"tokens.file={MPNET}", "seed=0",
     "training.loggers=[]"),
    (*FEW_STEPS, *FEW_PAIRS),
)  # fmt: skip
TUNING = (
    "training.steps=100",
    "training.batch_size=128",
    "training.warmup_steps=10",
    "training.learning_rate=3e-5",
    "training.evaluate_every=50",
    "training.log_every=10",
    "training.checkpoint_every=100",
    "training.loggers=[]",
    "finetuning.wise=false",
)
RATES = (("training.learning_rate=1e-5",), ("training.learning_rate=3e-5",), ("training.learning_rate=1e-4",))
FT = Row(
    "FT",
    "flickr8k",
    (f"data.root={FLICKR}", 'data.validation=""', "data.validation_share=0.083333", "data.test=dev-000.tar", *TUNING),
    small=(*FEW_STEPS, *FEW_PAIRS, "training.log_every=1"),
    sweep=RATES,
    kind="finetune",
    method="ft",
    start=START,
    seeded=("seed",),
)
M2 = FT.plus("m²-Mix", "objective.name=m2mix", WHOLE)
M3 = FT.plus("m³-Mix", "objective.name=m3mix", WHOLE)
FEW_FT = Row(
    "FT",
    "few-shot-cifar10",
    ("data.of.root={data}", *TUNING, "training.batch_size=100", "objective.name=few_shot_plain", "training.best=acc1"),
    small=(*FEW_STEPS, "data.shots=2", 'data.of.test=""', "data.of.validation_share=0.02", "training.log_every=1"),
    sweep=RATES,
    kind="finetune",
    method="few-shot",
    start=START,
    seeded=("seed", "data.seed"),
)
FEW_M2 = FEW_FT.plus("m²-Mix", "objective.name=few_shot_m2", WHOLE)

KNOWS = Precondition("the start knows COCO", "start former R@1", (("FT", 1.0),), least=15.0)
ROOM = Precondition("fine-tuning has room", "start R@1", (("FT", 1.0),), least=3.0, most=90.0)
GAINS = Precondition("plain fine-tuning is above its start", "gained R@1", (("FT", 1.0),), least=1.0)
FORGETS = Precondition("plain fine-tuning forgets something", "forgotten R@1", (("FT", 1.0),), least=0.5)
METRIC = "tuned R@1"
GAPS = {"τ = 0.01": 0.01, "τ = 0.05": 0.05, "τ = 0.2": 0.2}


def at(row: Row, sign: str, name: str) -> Row:
    """A row that starts with the temperature of this name."""
    return row.plus(f"{sign}, {name}", f"finetuning.tau={GAPS[name]}")


SHARP, HOT = (at(FT, "FT", name) for name in ("τ = 0.01", "τ = 0.05"))
DOSES = tuple(
    row.plus(row.name, sweep=((),)) for name in GAPS for row in (at(FT, "FT", name), at(M2, "m²", name))
)  # fmt: skip

CLAIMS: dict[str, Claim] = {
    "coco-m2-beats-ft": Claim(
        PAPER, "main paper, cross-modal retrieval, on photographs",
        "Fine-tuning with m²-Mix retrieves better than without.", metric=METRIC, chooses=METRIC, rows=(FT, M2),
        parts=(ahead("m²-Mix", "FT", METRIC),), preconditions=(KNOWS, ROOM, GAINS),
        shown=("start R@1", "former R@1", "uniformity", "mixed above"), data=PAIRS,
    ),
    "coco-m2-forgets-less": Claim(
        PAPER, "main paper, robust fine-tuning, on photographs",
        "A model fine-tuned with m²-Mix keeps more of what it knew.", metric="former R@1", chooses=METRIC,
        rows=(FT, M2), parts=(ahead("m²-Mix", "FT", "former R@1"),), preconditions=(KNOWS, FORGETS),
        shown=(METRIC, "start former R@1"), data=PAIRS,
    ),
    "coco-m2-raises-uniformity": Claim(
        PAPER, "Prop. D.2; Fig. 16 and 17, on photographs", "m²-Mix spreads the points: uniformity rises.",
        metric="uniformity", chooses=METRIC, rows=(FT, M2), parts=(ahead("m²-Mix", "FT", "uniformity", 0.02),),
        preconditions=(KNOWS,), shown=(METRIC, "mixed above"), data=PAIRS,
    ),
    "coco-mixed-negatives-are-hard": Claim(
        PAPER, "App. C.4, Fig. 12 to 15, on photographs",
        "Nearly all mixed negatives are closer to an image than its own text is, and far more than original ones.",
        "near 1 early in training", metric="mixed above", chooses=METRIC, rows=(M2,),
        parts=(
            Part("most mixed negatives are above the positive", "mixed above", (("m²-Mix", 1.0),), 5.0, constant=50.0),
        ),
        shown=("negatives above", METRIC), data=PAIRS,
    ),
    "coco-m2-few-shot": Claim(
        PAPER, "Table 11, on CIFAR-10", "With 16 pictures of a class, m²-Mix beats plain fine-tuning.",
        "Aircraft 60.6 to 69.1, Cars 88.6 to 90.4", metric="accuracy", chooses="accuracy", rows=(FEW_FT, FEW_M2),
        parts=(ahead("m²-Mix", "FT", "accuracy"),), preconditions=FEW_SHOTS_TEACH, shown=("start accuracy",),
        data=CLASSES,
    ),
    "coco-hot-ft-is-enough": Claim(
        PAPER, "main paper, fine-tuning with other temperatures, on photographs",
        "A temperature of τ = 0.05 alone already improves fine-tuning, compared with CLIP's 0.01.", metric=METRIC,
        chooses=METRIC, rows=(SHARP, HOT), parts=(ahead(HOT.name, SHARP.name, METRIC),),
        preconditions=tuple(Precondition(one.says, one.metric, ((SHARP.name, 1.0),), one.least, one.most)
                            for one in (KNOWS, ROOM)),
        shown=("former R@1", "uniformity"), data=PAIRS,
    ),
    "coco-m3-beats-m2": Claim(
        PAPER, "main paper, cross-modal retrieval, on photographs",
        "All four mixups together retrieve better than m²-Mix alone.", metric=METRIC, chooses=METRIC,
        rows=(FT, M2, M3), parts=(ahead("m³-Mix", "m²-Mix", METRIC), ahead("m³-Mix", "FT", METRIC)),
        preconditions=(KNOWS, ROOM, GAINS), shown=("former R@1", "uniformity"), data=PAIRS,
    ),
    "coco-m2-dose-response": Claim(
        PAPER, "App. C.4, on photographs",
        "The gain of m²-Mix grows with the share of mixed negatives above the positive (opened here by τ).",
        metric=METRIC, chooses=METRIC, rows=DOSES,
        parts=(
            gains_more(("m², τ = 0.01", "FT, τ = 0.01"), ("m², τ = 0.2", "FT, τ = 0.2"), METRIC,
                       says="m²-Mix gains more where more mixed negatives are above the positive"),
        ),
        preconditions=(
            Precondition(KNOWS.says, KNOWS.metric, ((HOT.name, 1.0),), KNOWS.least),
            Precondition("more mixed negatives are above the positive at τ = 0.01 than at 0.2", "mixed above",
                         (("m², τ = 0.01", 1.0), ("m², τ = 0.2", -1.0)), least=10.0),
        ),
        shown=("mixed above", "uniformity"),
        curves=Curves("mixed above", gains=tuple((f"m², {name}", f"FT, {name}") for name in GAPS)), data=PAIRS,
    ),
}  # fmt: skip
