"""Gao et al. 2024, "SoftCLIP: Softer Cross-Modal Alignment Makes CLIP Stronger".

Scenes of which 40% have another's captions, with regions and tags of a detector that errs.
A softened target is worth what its guide knows, so SoftCLIP's rows sweep what its guide is made of: regions and tags
through the model, with a start by CLIP alone and a scale that leaves half to the match, or as fixed vectors. CLIP and
label smoothing sweep as many learning rates. What the guide knows is a precondition: its AUC.
"""

from __future__ import annotations

from equipoise.claims.arenas import SCENES, noisy
from equipoise.claims.claim import Claim, Curves, Row
from equipoise.claims.rule import Precondition, ahead, gains_more, grows, room

PAPER = "gao2024softclip"
PAIRS = SCENES.plus("CLIP", noisy(0.4))
DETECTED = ("data.detector.regions=2", "data.detector.missed=0.1", "data.detector.jitter=0.1",
            "data.detector.confused=0.1", "regions.width=196", "regions.blocks=1")  # fmt: skip
STOPPED, HALF = "objective.guide.stop_gradient=true", "objective.guide.match_share=0.5"
WARM = ("objective.warmup=0.2", "objective.ramp=0.2")
DETECTOR: tuple[tuple[str, ...], ...] = (
    (*WARM, STOPPED, HALF),
    ("objective.guide.name=fixed_regions_tags", HALF),
    ("objective.guide.name=fixed_tags", HALF),
)
OWN_POINTS: tuple[tuple[str, ...], ...] = ((), (*WARM, STOPPED), (*WARM, STOPPED, HALF))


def guided(name: str, objective: str, guide: str = "regions_tags", *further: str) -> Row:
    side = DETECTED if guide == "regions_tags" else ()
    settings = (*side, f"objective.name={objective}", f"objective.guide.name={guide}", *further)
    return PAIRS.plus(name, *settings, sweep=DETECTOR if side else OWN_POINTS)


def knows(row: str) -> Precondition:
    return Precondition("the guide knows who is alike", "guide AUC", ((row, 1.0),), least=60.0)


CLIP = "CLIP"
SMOOTHED = PAIRS.plus("label smoothing", "objective.name=clip_smoothed")
SOFT = guided("soft", "clip_soft")
RELATION = guided("+ relation", "clip_soft_relation")
SOFTCLIP = guided("SoftCLIP", "softclip")
BY_GUIDE = (
    guided("regions and tags alone", "softclip", "regions_tags", "objective.clip_weight=0"),
    guided("image and text alone", "softclip", "image_text", "objective.clip_weight=0"),
)
CLEAN_PAIRS = (
    PAIRS.plus("CLIP, no noise", noisy(0.0)),
    SOFTCLIP.plus("SoftCLIP, no noise", noisy(0.0)),
)


def beta(value: float, weight: float) -> Row:
    name = f"β = {value:g}, {'with' if weight else 'without'} relation"
    settings = (f"objective.beta={value}", f"objective.relation_weight={weight}", "objective.clip_weight=0")
    return guided(name, "softclip", "regions_tags", *settings)


def erring(share: float) -> Row:
    """SoftCLIP by a detector that misses and confuses so many things."""
    settings = (f"data.detector.missed={share:g}", f"data.detector.confused={share:g}")
    return SOFTCLIP.plus(f"SoftCLIP, {share:.0%} errors", *settings)


ERRORS = (0.0, 0.25, 0.5)
BETAS = tuple(beta(value, weight) for weight in (0.0, 1.0) for value in (0.0001, 0.3, 0.9))

CLAIMS: dict[str, Claim] = {
    "softclip-beats-clip": Claim(
        PAPER, "Tables 2 and 4", "Targets softened by regions and tags retrieve better than CLIP's.",
        "Flickr30K R@1 +7.2 / +5.9 (ResNet-50)", rows=(PAIRS, SOFTCLIP), parts=(ahead("SoftCLIP", CLIP),),
        preconditions=(room(CLIP), knows("SoftCLIP")), shown=("mAP@R", "zero-shot", "t", "effective β"),
    ),
    "smoothing-helps": Claim(
        PAPER, "Table 5, row 2", "Label smoothing helps CLIP on noisy pairs.", "16.5 to 18.3 (ResNet-50)",
        rows=(PAIRS, SMOOTHED), parts=(ahead("label smoothing", CLIP),), preconditions=(room(CLIP),),
        shown=("mAP@R", "zero-shot"),
    ),
    "soft-beats-smoothing": Claim(
        PAPER, "Table 5, row 3", "CLIP with the soft loss beats CLIP with label smoothing.",
        "20.5 against 18.3 (ResNet-50), 11.7 against 11.2 (ViT-B/32)", rows=(PAIRS, SMOOTHED, SOFT),
        parts=(ahead("soft", "label smoothing"), ahead("soft", CLIP)), preconditions=(room(CLIP), knows("soft")),
        shown=("mAP@R", "effective β"),
    ),
    "relation-helps": Claim(
        PAPER, "Table 5, row 4", "The relation-enhanced loss adds to the soft one.", "20.5 to 21.4, 11.7 to 12.2",
        rows=(SOFT, RELATION), parts=(ahead("+ relation", "soft"),),
        preconditions=(room("soft"), knows("+ relation")), shown=("mAP@R",),
    ),
    "symmetric-kl-helps": Claim(
        PAPER, "Table 5, row 5", "The symmetric KL adds to the relation-enhanced loss.", "21.4 to 22.1, 12.2 to 12.5",
        rows=(RELATION, SOFTCLIP), parts=(ahead("SoftCLIP", "+ relation"),),
        preconditions=(room("+ relation"), knows("SoftCLIP")), shown=("mAP@R",),
    ),
    "regions-beat-own-points": Claim(
        PAPER, "Fig. 5a", "Without CLIP's loss, regions and tags guide better than the images and texts themselves.",
        rows=BY_GUIDE, parts=(ahead("regions and tags alone", "image and text alone"),),
        preconditions=(room("regions and tags alone", least=2.0),), shown=("mAP@R",),
    ),
    "beta-with-relation": Claim(
        PAPER, "Fig. 5b",
        "A tiny β costs little with the relation term and much without it; β near 1 is bad.",
        rows=BETAS,
        parts=(
            ahead("β = 0.3, without relation", "β = 0.0001, without relation"),
            gains_more(("β = 0.3, without relation", "β = 0.0001, without relation"),
                       ("β = 0.3, with relation", "β = 0.0001, with relation"),
                       says="a tiny β costs more without the relation term"),
            ahead("β = 0.3, with relation", "β = 0.9, with relation"),
        ),
        preconditions=(room("β = 0.3, with relation", least=2.0),),
    ),
    "softclip-by-its-guide": Claim(
        PAPER, "§3; Fig. 5a",
        "A softened target is worth what its guide knows: the fewer errors of the detector, the better.",
        rows=(PAIRS, *(erring(share) for share in ERRORS)),
        parts=(
            grows([erring(share).name for share in reversed(ERRORS)], "R@1", 0.5, "R@1 grows as it errs less"),
            ahead(erring(0.0).name, CLIP),
        ),
        preconditions=(room(CLIP), knows(erring(0.0).name)), shown=("mAP@R", "guide AUC", "effective β"),
        curves=Curves("errors of the detector, %", (
            ("SoftCLIP", tuple((100 * share, erring(share).name) for share in ERRORS)),
            (CLIP, tuple((100 * share, CLIP) for share in ERRORS)),
        )),
    ),
    "softclip-pays-with-noise": Claim(
        PAPER, "§1", "What softened targets mend is noise: their gain is larger on noisy pairs than on clean ones.",
        rows=(PAIRS, SOFTCLIP, *CLEAN_PAIRS),
        parts=(gains_more(("SoftCLIP", CLIP), ("SoftCLIP, no noise", "CLIP, no noise"),
                          says="SoftCLIP gains more with noise"),),
        preconditions=(room(CLIP),), shown=("mAP@R",),
    ),
    "softclip-at-scale": Claim(
        PAPER, "Tables 2 and 3", "Zero-shot ImageNet rises by 6.5 points (CC3M, ResNet-50) and 7.2 (CC12M).",
        not_testable="CC3M, CC12M, YFCC15M, their region features and ImageNet are not at hand",
    ),
}  # fmt: skip
