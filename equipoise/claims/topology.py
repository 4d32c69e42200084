"""Sun & Li 2024, "Analyzing the Impact of Learnable Softmax Temperature ...", and its first version, "Design of the
topology for contrastive visual-textual alignment": spaces, temperatures, class tokens.

All spaces have 256 dimensions. Starts are equal in what matters, the spread of logits of random points
(`temperature.init = "matched"`). Euclidean points have no fixed length, so that space starts at t = 0.
"""

from __future__ import annotations

from dataclasses import replace

from equipoise.claims.arenas import ANY_SPACE, CLIP_START, DIM, MATCHED, SCENES, noisy, started_at
from equipoise.claims.arenas import SPHERE as ON_SPHERE
from equipoise.claims.claim import Claim, Curves, Row
from equipoise.claims.rule import ahead, gains_more, grows, keeps, level, loses, room

PAPER = "sun2024temperature"
M = 8
N = DIM // M
PRODUCT = ("space.name=product_sphere", f"space.n={N}", f"space.m={M}")
SPACES: dict[str, tuple[tuple[str, ...], float | str]] = {
    "sphere": (ON_SPHERE, CLIP_START),
    "Euclidean": (("space.name=euclidean", f"space.dim={DIM}"), 0.0),
    "PS geodesic": ((*PRODUCT, "space.distance=geodesic"), MATCHED),
    "PS inner": (PRODUCT, MATCHED),
}
SPHERE, EUCLIDEAN, GEODESIC, INNER = SPACES
FIXED = (started_at(0.0), "temperature.learnable=false")
SHARES = (0.0, 0.2, 0.4, 0.6)


def learned(space: str, share: float = 0.4, name: str = "") -> Row:
    settings, start = SPACES[space]
    return ANY_SPACE.plus(name or space, *settings, started_at(start), noisy(share))


def fixed(space: str) -> Row:
    return ANY_SPACE.plus(f"{space}, t = 0", *SPACES[space][0], *FIXED, noisy(0.4))


def at(space: str, share: float) -> Row:
    return learned(space, share, f"{space}, {share:.0%}")


def over_noise(*spaces: str) -> Curves:
    lines = tuple((space, tuple((100 * share, at(space, share).name) for share in SHARES)) for space in spaces)
    return Curves("captions that are wrong, %", lines)


def started(space: str, start: float) -> Row:
    """From another t, at one rate: what is asked is where t ends."""
    return ANY_SPACE.plus(f"{space} from {start:g}", *SPACES[space][0], started_at(start), noisy(0.4), sweep=((),))


ORDER = (learned(SPHERE), learned(GEODESIC), learned(INNER))
DEPENDS_ON_START = [started(space, start) for space in (SPHERE, INNER) for start in (0.0, CLIP_START, 4.6)]
BATCHES = (64, 128, 256, 512)
BERT = ("text.name=bert-nano", "tokens.kind=wordpiece")
ONE_TOKEN = ANY_SPACE.plus("PS(32, 8)", *PRODUCT, *BERT, started_at(MATCHED), noisy(0.4))
SPHERE_BERT = SCENES.plus("sphere", *BERT, noisy(0.4))
CLIP_BERT = SPHERE_BERT.plus("CLIP")
MULTI = ONE_TOKEN.plus("Multi(32, 8)", "readout.name=class_tokens")


def structure(n: int, m: int) -> Row:
    settings = ("space.name=product_sphere", f"space.n={n}", f"space.m={m}", started_at(MATCHED))
    return ANY_SPACE.plus(f"PS({n}, {m})", *settings, noisy(0.4))


TCL_SPHERE, TCL_PRODUCT, TCL_MULTI = "TCL, sphere", "TCL, PS(128, 2)", "TCL, Multi(128, 2)"
TCL = replace(ANY_SPACE, recipe="tcl-scenes").plus("TCL", noisy(0.4))
TWO = ("space.name=product_sphere", f"space.n={DIM // 2}", "space.m=2", started_at(MATCHED))
IN_TCL = (
    TCL.plus(TCL_SPHERE, *ON_SPHERE, started_at(CLIP_START)),
    TCL.plus(TCL_PRODUCT, *TWO),
    TCL.plus(TCL_MULTI, *TWO, "readout.name=class_tokens"),
)

CLAIMS: dict[str, Claim] = {
    "space-order": Claim(
        PAPER, "Table 2; first version §4.3",
        "With a learned temperature a product of spheres by its inner product retrieves better than by its geodesic "
        "distance, and that better than the sphere.",
        "R@1 50.9 / 32.7, 49.9 / 32.5, 49.0 / 30.3",
        rows=ORDER, parts=(ahead(INNER, GEODESIC), ahead(GEODESIC, SPHERE), ahead(INNER, SPHERE)),
        preconditions=(room(SPHERE),), shown=("mAP@R", "zero-shot", "t", "unit-free t"),
    ),
    "uniformity-helps": Claim(
        PAPER, "§2.3, effects of the uniformity",
        "The product of spheres by its geodesic distance, which has a uniform distribution, beats Euclidean space, "
        "which has none.",
        "R@1 49.9 / 32.5 against 47.4 / 30.7",
        rows=(learned(EUCLIDEAN), learned(GEODESIC)), parts=(ahead(GEODESIC, EUCLIDEAN),),
        preconditions=(room(EUCLIDEAN),), shown=("mAP@R", "t"),
    ),
    "sphere-needs-temperature": Claim(
        PAPER, "Table 2, no temperature", "Without a temperature the sphere collapses.",
        "11% of its R@1 is left", rows=(learned(SPHERE), fixed(SPHERE)),
        parts=(loses(f"{SPHERE}, t = 0", 0.5, SPHERE),), preconditions=(room(SPHERE),), shown=("t",),
    ),
    "geodesic-needs-temperature": Claim(
        PAPER, "Table 2, no temperature",
        "Without a temperature the product of spheres by its geodesic distance collapses too.",
        "8% of its R@1 is left", rows=(learned(GEODESIC), fixed(GEODESIC)),
        parts=(loses(f"{GEODESIC}, t = 0", 0.5, GEODESIC),), preconditions=(room(GEODESIC),), shown=("t",),
    ),
    "inner-survives-without": Claim(
        PAPER, "Table 2, no temperature; §2.3, effects of the triangular inequality",
        "Without a temperature the product of spheres by its inner product still trains, and better than by its "
        "geodesic distance.",
        "58% of its R@1 is left, against 8%",
        rows=(learned(INNER), fixed(INNER), fixed(GEODESIC)),
        parts=(keeps(f"{INNER}, t = 0", 0.5, INNER), ahead(f"{INNER}, t = 0", f"{GEODESIC}, t = 0")),
        preconditions=(room(INNER),), shown=("t",),
    ),
    "euclidean-needs-none": Claim(
        PAPER, "Table 2; App. C", "Euclidean space hardly notices whether there is a temperature.",
        "99% of its R@1 is left", rows=(learned(EUCLIDEAN), fixed(EUCLIDEAN)),
        parts=(keeps(f"{EUCLIDEAN}, t = 0", 0.9, EUCLIDEAN),), preconditions=(room(EUCLIDEAN),), shown=("t",),
    ),
    "final-t-order": Claim(
        PAPER, "Table 7; §2.4",
        "The learned temperature ends lower the wider the range of similarities: sphere, geodesic, inner product.",
        "t = 3.98, 3.02, 2.17", metric="t", rows=ORDER,
        parts=(ahead(SPHERE, GEODESIC, "t", 0.1), ahead(GEODESIC, INNER, "t", 0.1)), shown=("unit-free t", "R@1"),
    ),
    "final-t-is-units": Claim(
        "", "against Table 7 of Sun & Li 2024",
        "That order is one of units: measured by the spread of random points, the spaces end at the same temperature.",
        metric="unit-free t", rows=ORDER,
        parts=(level(SPHERE, GEODESIC, "unit-free t", 0.4), level(GEODESIC, INNER, "unit-free t", 0.4)), shown=("t",),
    ),
    "t-forgets-its-start": Claim(
        PAPER, "Fig. 3, Table 7", "The learned temperature ends at the same value wherever it starts.",
        "3.98 to 4.03 on the sphere, 2.17 to 2.28 by inner product", metric="t", rows=tuple(DEPENDS_ON_START),
        parts=tuple(
            level(f"{space} from {start}", f"{space} from {CLIP_START:g}", "t", 0.15)
            for space in (SPHERE, INNER) for start in ("0", "4.6")
        ),
        shown=("R@1",),
    ),
    "noise-raises-t": Claim(
        PAPER, "Fig. 1; abstract of the first version",
        "The learned temperature tells how noisy the pairs are: more noise, a larger logit scale.",
        metric="t", rows=tuple(replace(at(SPHERE, share), sweep=((),)) for share in SHARES),
        parts=(grows([f"{SPHERE}, {share:.0%}" for share in SHARES], "t", 0.02, "t grows with noise"),),
        shown=("R@1",), curves=over_noise(SPHERE),
    ),
    "batch-raises-t": Claim(
        PAPER, "Fig. 1", "The temperature of balance grows with the batch.", metric="t",
        rows=tuple(
            SCENES.plus(f"batch {size}", f"training.batch_size={size}", noisy(0.4), sweep=((),))
            for size in BATCHES
        ),
        parts=(grows([f"batch {size}" for size in BATCHES], "t", 0.02, "t grows with the batch"),), shown=("R@1",),
    ),
    "range-pays-with-noise": Claim(
        PAPER, "§2.2, §2.4", "A wider range of similarities pays the more, the noisier the pairs.",
        rows=tuple(at(space, share) for space in SPACES for share in SHARES),
        parts=(
            ahead(f"{INNER}, 40%", f"{SPHERE}, 40%"),
            gains_more((f"{INNER}, 40%", f"{SPHERE}, 40%"), (f"{INNER}, 0%", f"{SPHERE}, 0%"),
                       says="the lead is larger at 40% than without noise"),
        ),
        preconditions=(room(f"{SPHERE}, 40%"),), shown=("t",),
        curves=over_noise(*SPACES),
    ),
    "structure": Claim(
        PAPER, "Tables 6 and 8",
        "Some spheres are better than one, and too many are worse again.", "R@1 t2i 31.5, 32.3, 32.9, 33.0, 32.9",
        rows=(learned(SPHERE), structure(32, 8), structure(2, 128)),
        parts=(ahead("PS(32, 8)", SPHERE), ahead("PS(32, 8)", "PS(2, 128)")),
        preconditions=(room(SPHERE),), shown=("mAP@R", "t"),
    ),
    "several-class-tokens": Claim(
        PAPER, "Tables 3, 4 and 6",
        "Several class tokens, a sphere each, beat one token cut into as many spheres.",
        "R@1 54.0 / 34.3 against 52.3 / 32.9; mAP@R ahead",
        rows=(SPHERE_BERT, ONE_TOKEN, MULTI),
        parts=(ahead("Multi(32, 8)", "PS(32, 8)"), ahead("Multi(32, 8)", "PS(32, 8)", "mAP@R"),
               ahead("Multi(32, 8)", "sphere")),
        preconditions=(room("PS(32, 8)"),), shown=("zero-shot", "t"),
    ),
    "multi-at-scale": Claim(
        PAPER, "Table 3; abstract of the first version",
        "At large scale Multi(32, 16) improves zero-shot classification by 6.1 points on average.",
        "ImageNet 69.5 to 76.4",
        not_testable="ViT-B/16 on 400 million pairs from the web and ImageNet to test on, none of which is at hand",
    ),
    "spheres-in-tcl": Claim(
        PAPER, "Table 9; App. F",
        "PS(128, 2) in the place of every sphere of TCL improves retrieval a little, by points and in two stages.",
        "mean recall on Flickr30K 88.73 to 88.84 by points, 93.25 to 93.29 in two stages",
        metric="two-stage R@1", rows=IN_TCL,
        parts=(ahead(TCL_PRODUCT, TCL_SPHERE, "two-stage R@1", 0.5), ahead(TCL_PRODUCT, TCL_SPHERE, "R@1", 0.5)),
        preconditions=(room(TCL_SPHERE), room(TCL_SPHERE, "two-stage R@1")), shown=("R@1", "mAP@R", "t"),
    ),
    "multi-in-tcl": Claim(
        "", "beside Table 9 of Sun & Li 2024",
        "In TCL two class tokens, a sphere each, retrieve better than one token cut into two spheres, and than one "
        "sphere.",
        metric="two-stage R@1", rows=IN_TCL,
        parts=(ahead(TCL_MULTI, TCL_PRODUCT, "two-stage R@1"), ahead(TCL_MULTI, TCL_SPHERE, "two-stage R@1"),
               ahead(TCL_MULTI, TCL_PRODUCT), ahead(TCL_MULTI, TCL_SPHERE)),
        preconditions=(room(TCL_SPHERE), room(TCL_SPHERE, "two-stage R@1")), shown=("R@1", "mAP@R", "t"),
    ),
    "tcl-beats-clip": Claim(
        "", "beside Table 9 of Sun & Li 2024",
        "TCL retrieves better than CLIP with the same towers, by points and, where its matching head ranks again, in "
        "two stages.",
        metric="ranked R@1", rows=(CLIP_BERT, IN_TCL[0]),
        parts=(ahead(TCL_SPHERE, CLIP_BERT.name, "ranked R@1"), ahead(TCL_SPHERE, CLIP_BERT.name)),
        preconditions=(room(CLIP_BERT.name),), shown=("R@1", "mAP@R", "t"),
    ),
}  # fmt: skip
