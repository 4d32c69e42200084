"""The rows of the noise bench: the ways of the field and ours, each a few settings of a recipe."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from pathlib import Path

from cells import Row

from equipoise.config import load_run

CLEAN, NOISY, BOUND = "no noise", "all pairs", "truly right pairs"
# the ways of the field, then ours; every one is a setting of the recipe
STOPPED = "early stopping"
CLEANED, SEEN, WEIGHED = "clean.enabled=true", "clean.seen=true", "clean.rule=weights"
ONLINE = "clean.online=true"
FIELD = {
    "a third of the rate": ("training.learning_rate=RATE/3",),
    STOPPED: (),
    "label smoothing": ("objective.target.name=smoothed",),
    "momentum teacher": (
        "objective.target.name=softened", "objective.target.guide.name=momentum", "objective.target.beta=0.4",
        "training.ema=0.995",
    ),
    "SoftCLIP, stopped guides": (
        "objective.name=softclip", "objective.guide.name=image_text", "objective.guide.stop_gradient=true",
    ),
    "complementary loss (RCL)": ("objective.form.name=complementary",),
    "active complementary loss": ("objective.name=crcl",),
    f"active complementary loss, {BOUND}": ("objective.name=crcl",),  # what that loss gives where nothing is wrong
    "active complementary loss, refined labels (CRCL)": (
        "objective.name=crcl", CLEANED, SEEN, WEIGHED, "clean.evidence=crcl",
    ),
    "judges that saw the pairs, losses split (NCR)": (CLEANED, SEEN, "clean.evidence=gmm", "clean.per=caption"),
    "judges that saw the pairs, small losses exchanged (co-teaching)": (
        CLEANED, SEEN, "clean.evidence=co_teaching", "clean.judges=2", "clean.rounds=2", "clean.rule=share",
        "clean.share=SHARE",
    ),
    "judges that saw the pairs, agreement (GSC)": (CLEANED, SEEN, WEIGHED, "clean.evidence=gsc"),
    "judges that saw the pairs, bank of clean ones (NPC)": (CLEANED, SEEN, WEIGHED, "clean.evidence=npc"),
    "judges that saw the pairs, ratios": (CLEANED, SEEN),
    "held-out judges, losses split": (CLEANED, "clean.evidence=gmm", "clean.per=caption"),
    "held-out judges, cosine": (CLEANED, "clean.evidence=score", "clean.rule=share", "clean.share=SHARE"),
    "held-out judges, orthogonal weight (OSA)": (CLEANED, WEIGHED, "clean.evidence=osa"),
}  # fmt: skip
# what a model that is given says of the pairs (`--judge`)
GIVEN = {
    "a given model, cosine (CLIP score)": (CLEANED, "clean.evidence=score", "clean.rule=share", "clean.share=SHARE"),
    "a given model, orthogonal weight (OSA)": (CLEANED, WEIGHED, "clean.evidence=osa"),
    "a given model, by P(right)": (CLEANED,),
}
# what one kind of data has and others have not
FURTHER = {
    "features": {
        "SoftCLIP, guides by the features": (
            "objective.name=softclip", "objective.guide.name=vectors", "data.guides=true",
        ),
    },
}  # fmt: skip
# judged on frozen features of the same records (`--features`), which takes seconds; then pictures are trained on
ON_FEATURES = "judged on features"
BY_FEATURES = {
    **{f"{name}, {ON_FEATURES}": settings for name, settings in FIELD.items() if CLEANED in settings},
    f"kept, two rounds, {ON_FEATURES}": (CLEANED, "clean.rounds=2"),
    f"kept, two rounds, {ON_FEATURES}, active complementary loss": (CLEANED, "clean.rounds=2", "objective.name=crcl"),
    f"kept, two rounds, {ON_FEATURES}, P >= 0.9": (CLEANED, "clean.rounds=2", "clean.threshold=0.9"),
    f"kept, two rounds, {ON_FEATURES}, P >= 0.9, active complementary loss": (
        CLEANED, "clean.rounds=2", "clean.threshold=0.9", "objective.name=crcl",
    ),
    f"weighted, two rounds, {ON_FEATURES}, active complementary loss": (
        CLEANED, WEIGHED, "clean.rounds=2", "objective.name=crcl",
    ),
}  # fmt: skip
OURS = {
    "kept": (CLEANED,),
    "kept, two rounds": (CLEANED, "clean.rounds=2"),
    "kept, two rounds, share by decoys": (CLEANED, "clean.rounds=2", "clean.reading=decoys"),
    "kept, two rounds, active complementary loss": (CLEANED, "clean.rounds=2", "objective.name=crcl"),
    "kept, two rounds, P >= 0.9": (CLEANED, "clean.rounds=2", "clean.threshold=0.9"),
    "kept, two rounds, P >= 0.9, active complementary loss": (
        CLEANED, "clean.rounds=2", "clean.threshold=0.9", "objective.name=crcl",
    ),
    "kept, two rounds, P >= 0.2, active complementary loss": (
        CLEANED, "clean.rounds=2", "clean.threshold=0.2", "objective.name=crcl",
    ),
    "kept, two rounds, matched anew": (CLEANED, "clean.rounds=2", "clean.rematch=true"),
    "kept, 4 folds of 4 judges": (CLEANED, "clean.folds=4", "clean.judges=4"),
    "weighted": (CLEANED, WEIGHED),
    "weighted, two rounds": (CLEANED, WEIGHED, "clean.rounds=2"),
    "weighted, two rounds, active complementary loss": (CLEANED, WEIGHED, "clean.rounds=2", "objective.name=crcl"),
    "weighted, judged meanwhile (online)": (CLEANED, WEIGHED, ONLINE, "clean.every=5"),
    "weighted, 4 folds of 4 judges": (CLEANED, WEIGHED, "clean.folds=4", "clean.judges=4"),
}  # fmt: skip
# what held-out judges could do at best: those of the second round learn from the truly right pairs of the other folds
TOLD = "weighted, judges told what is right"
RECIPES = {
    "scenes": ("clip-scenes-gpu", ("data.train_size=20000", "training.steps=1500", "training.evaluate_every=500",
                                   "temperature.speed=10", "data.test_size=1000", "data.validation_size=1000")),
    "demo": ("demo-noisy", ("data.noise.shuffled=0", "data.captions=2", "clean.enabled=false", "clean.baseline=false",
                            "training.evaluate_every=400")),
    "features": ("features", ()),
    "coco": ("coco-resnet50-mpnet", ()),
}  # fmt: skip
DRAWN = ("scenes", "demo")  # whose noise may be of other kinds than another's captions
SHUFFLED = "shuffled"
# what is wrong with a share of the pairs, or (vague) of all captions but the first of each; the last three: of scenes
NOISE = {
    SHUFFLED: ("shuffle.share=SHARE", "shuffle.level=LEVEL"),
    "wrong_attribute": ("data.noise.wrong_attribute=SHARE",),
    "near_duplicates": ("data.noise.near_duplicates=SHARE",),
    "vague": ('data.details=["complete", "abstract"]', "data.detail_weights=[REST, SHARE]"),
}


def noise_settings(noise: str, share: float, level: str) -> tuple[str, ...]:
    said = {"SHARE": f"{share:g}", "REST": f"{1 - share:g}", "LEVEL": level}
    return tuple(reduce(lambda text, word: text.replace(word, said[word]), said, text) for text in NOISE[noise])


def rows(
    kind: str,
    shares: Sequence[float],
    level: str,
    judge: Path | None = None,
    noise: str = SHUFFLED,
    on_features: bool = False,
) -> list[Row]:
    recipe, base = RECIPES[kind]
    given = {name: (*settings, f"clean.model={judge}") for name, settings in GIVEN.items()} if judge else {}
    rate = load_run(recipe, base).run.training.learning_rate
    found = [Row(CLEAN, recipe, base)]
    for share in shares:
        noisy = (*base, *noise_settings(noise, share, level))
        found += [Row(f"{share:.0%}: {NOISY}", recipe, noisy), Row(f"{share:.0%}: {BOUND}", recipe, noisy)]
        for name, settings in {
            **FIELD,
            **FURTHER.get(kind, {}),
            **given,
            **OURS,
            **(BY_FEATURES if on_features else {}),
            TOLD: OURS["weighted, two rounds"],
        }.items():
            meant = (text.replace("RATE/3", f"{rate / 3:.3g}").replace("SHARE", f"{share:g}") for text in settings)
            found.append(Row(f"{share:.0%}: {name}", recipe, (*noisy, *meant)))
    return found
