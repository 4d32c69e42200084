"""Claims on real pictures: two linear heads on frozen features of photographs and their captions, such as Flickr8k's.

`--features FOLDER` holds train.npz, validation.npz and test.npz (docs/claims.md says of what). Wrong captions are made
by handing all captions of an image to another one. Spaces have the paper's own 512 dimensions, PS(64, 8).
"""

from __future__ import annotations

from equipoise.claims.arenas import CLIP_START, EXACT, FAST_T, MATCHED, QUIET, started_at
from equipoise.claims.claim import Claim, Curves, Row
from equipoise.claims.rule import Part, ahead, grows, level, loses, room

PAPER, SMOOTHING = "sun2024temperature", "gao2024softclip"
FEATURES = ("train.npz", "validation.npz", "test.npz")
N, M = 64, 8
PRODUCT = ("space.name=product_sphere", f"space.n={N}", f"space.m={M}")
RATES = (("training.learning_rate=1e-3",), ("training.learning_rate=3e-3",), ("training.learning_rate=1e-2",))
HEADS = Row(
    "all pairs",
    "features",
    (*(f"data.{name.removesuffix('.npz')}={{features}}/{name}" for name in FEATURES), *QUIET, *EXACT, *FAST_T,
     *RATES[1], "training.steps=300", "training.evaluate_every=300"),
    small=("training.steps=5", "training.evaluate_every=5", "training.warmup_steps=1", "training.batch_size=16"),
    sweep=RATES,
    seeded=("seed", "shuffle.seed"),
)  # fmt: skip
SPACES: dict[str, tuple[tuple[str, ...], float | str]] = {
    "sphere": (("space.name=sphere", f"space.dim={N * M}"), CLIP_START),
    "PS geodesic": ((*PRODUCT, "space.distance=geodesic"), MATCHED),
    "PS inner": (PRODUCT, MATCHED),
}
SPHERE, GEODESIC, INNER = SPACES
SHARES = (0.0, 0.2, 0.4, 0.6)


def wrong(share: float) -> str:
    return f"shuffle.share={share:g}"


def learned(space: str, share: float = 0.4, name: str = "") -> Row:
    settings, start = SPACES[space]
    return HEADS.plus(name or space, *settings, started_at(start), wrong(share))


def fixed(space: str) -> Row:
    settings = (*SPACES[space][0], started_at(0.0), "temperature.learnable=false", wrong(0.4))
    return HEADS.plus(f"{space}, t = 0", *settings)


def at(share: float) -> Row:
    return learned(SPHERE, share, f"{share:.0%} wrong").plus(f"{share:.0%} wrong", sweep=((),))


ALL = learned(SPHERE, name="all pairs")
KEPT = ALL.plus("kept", "clean.enabled=true", "clean.per=image", seeded=(*ALL.seeded, "clean.seed"))
RIGHT = ALL.plus("truly right pairs", kind="right_pairs")
CLEAN = learned(SPHERE, 0.0, "no noise")
SMOOTHED = ALL.plus("label smoothing", "objective.name=clip_smoothed")
SOFTENED = ALL.plus(
    "SoftCLIP", "objective.name=softclip", "objective.guide.name=vectors", "data.guides=true",
    sweep=tuple((f"objective.guide.match_share={share}",) for share in (0.5, 0.8, 0.95)),
)  # fmt: skip
DETECTED = ALL.plus(
    "SoftCLIP, things found", "objective.name=softclip", "objective.guide.name=vectors",
    "objective.guide.by_col=image_vectors", "data.guide=things", *RATES[0],  # which is best for CLIP's targets
    # no match_share: two pictures of a person are the same to a detector, so that none has most of its guide for itself
    sweep=tuple((f"objective.guide.scale={scale}",) for scale in (2, 5, 10)),
)  # fmt: skip
ORDER = tuple(map(learned, SPACES))

CLAIMS: dict[str, Claim] = {
    "photos-space-order": Claim(
        PAPER, "Table 2, on photographs", "space-order, on heads of frozen features.", rows=ORDER,
        parts=(ahead(INNER, GEODESIC, margin=0.5), ahead(GEODESIC, SPHERE, margin=0.5),
               ahead(INNER, SPHERE, margin=0.5)),
        preconditions=(room(SPHERE, least=2.0),), shown=("t", "unit-free t"), features=FEATURES,
    ),
    "photos-need-temperature": Claim(
        PAPER, "Table 2, on photographs", "Without a temperature the sphere collapses, and so does the geodesic one.",
        "11% and 8% of R@1 are left", rows=(learned(SPHERE), fixed(SPHERE), learned(GEODESIC), fixed(GEODESIC)),
        parts=(loses(f"{SPHERE}, t = 0", 0.5, SPHERE), loses(f"{GEODESIC}, t = 0", 0.5, GEODESIC)),
        preconditions=(room(SPHERE, least=2.0),), shown=("t",), features=FEATURES,
    ),
    "photos-t-is-units": Claim(
        "", "against Table 7 of Sun & Li 2024, on photographs",
        "Measured by the spread of random points, the spaces end at the same temperature.",
        metric="unit-free t", rows=ORDER,
        parts=(level(SPHERE, GEODESIC, "unit-free t", 0.4), level(GEODESIC, INNER, "unit-free t", 0.4)),
        shown=("t",), features=FEATURES,
    ),
    "photos-noise-and-t": Claim(
        PAPER, "Fig. 1, on photographs", "More noise, a larger learned logit scale.", metric="t",
        rows=tuple(map(at, SHARES)),
        parts=(grows([at(share).name for share in SHARES], "t", 0.02, "t grows with noise"),), shown=("R@1",),
        curves=Curves("captions that are wrong, %",
                      (("sphere", tuple((100 * share, at(share).name) for share in SHARES)),)),
        features=FEATURES,
    ),
    "photos-smoothing-helps": Claim(
        SMOOTHING, "Table 5, row 2, on photographs", "Label smoothing helps on noisy pairs.",
        rows=(ALL, SMOOTHED), parts=(ahead("label smoothing", "all pairs", margin=0.5),),
        preconditions=(room("all pairs", least=2.0),), features=FEATURES,
    ),
    "photos-softclip": Claim(
        SMOOTHING, "Tables 4 and 5, on photographs",
        "Softened by what the frozen features find alike, noisy pairs train better heads than CLIP's targets.",
        rows=(ALL, SOFTENED), parts=(ahead("SoftCLIP", "all pairs", margin=0.5),),
        preconditions=(room("all pairs", least=2.0),), shown=("t", "effective β"), features=FEATURES,
    ),
    "photos-softclip-by-detector": Claim(
        SMOOTHING, "Tables 4 and 5, on photographs, guided by a detector as the paper has it",
        "Softened by what a detector finds in both pictures, noisy pairs train better heads than CLIP's targets.",
        rows=(ALL, DETECTED), parts=(ahead("SoftCLIP, things found", "all pairs", margin=0.5),),
        preconditions=(room("all pairs", least=2.0),), shown=("t", "effective β"), features=FEATURES,
    ),
    "photos-cleaning-pays": Claim(
        "", "docs/clean.md, on photographs",
        "At 40% noise, heads trained on what held-out judges keep beat those trained on all pairs.",
        rows=(CLEAN, ALL, KEPT, RIGHT),
        parts=(
            ahead("kept", "all pairs", margin=0.5),
            Part("more than half of the way to training on truly right pairs alone", "R@1",
                 (("kept", 1.0), ("all pairs", -0.5), ("truly right pairs", -0.5)), 0.5),
        ),
        preconditions=(room("all pairs", least=2.0),), shown=("kept wrong",), features=FEATURES,
    ),
}  # fmt: skip
